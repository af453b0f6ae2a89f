"""One look at a cluster, live or dumped: object lists to raw batches, page by page.

Each dataset stands alone: a list that cannot be read leaves a gap for its dataset, an odd object
leaves a reject, everything else lands. Memory holds finished columns, one page of bytes, and a short
record per pod and claim that later lists are joined to; never the objects of a whole list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

import msgspec
import polars as pl

from kubetally.errors import BadDataError, KubetallyError
from kubetally.sources.kubernetes import facts
from kubetally.sources.kubernetes.objects import (
    Claim,
    Namespace,
    Node,
    Page,
    Pod,
    PodMetrics,
    Service,
    Volume,
    decode_items,
    reject,
)
from kubetally.sources.kubernetes.pages import (
    CLAIMS,
    NAMESPACES,
    NODES,
    POD_METRICS,
    PODS,
    SERVICES,
    VOLUMES,
    Resource,
)
from kubetally.sources.kubernetes.pod_columns import PodColumns
from kubetally.sources.rows import COST_DATASETS, Batch, Collected, Dataset, Gap, Reject, frame
from kubetally.windows import Window, iso

T = TypeVar("T")
Pages = Callable[[Resource], Iterable[Page]]

DATASETS: tuple[Dataset, ...] = (*COST_DATASETS, "load_balancer")
SEALED_ROWS = 8192
USAGE_AT_ONCE = 2048


def collect_snapshot(
    source: str, pages: Pages, *, window: Window, cell: Window, is_dated: bool = True
) -> Collected:
    """Every dataset of one cluster as a batch, or as a gap with the reason.

    `pages(resource)` gives a list's pages or raises; `window` is what was asked for, `cell` what the
    lists speak of: their common part is covered. Where nobody says when the lists were taken
    (`is_dated` false), objects younger than the cell prove that it was later: a gap, not a past.
    """
    collected = Collected(source)
    start, end = max(window.start, cell.start), min(window.end, cell.end)
    if start >= end:
        reason = f"This source speaks of {cell} only."
        collected.gaps.extend(Gap(dataset, window, reason) for dataset in DATASETS)
        return collected
    reader = _Reader(pages, cell)
    reads: dict[Dataset, Callable[[_Rows], None]] = {
        "namespace": reader.namespaces,
        "node": reader.nodes,
        "pod": reader.pods,  # before usage, which is joined to them
        "volume": reader.volumes,
        "usage": reader.usage,
        "load_balancer": reader.load_balancers,
    }
    for dataset, read in reads.items():
        rows = _Rows(dataset)
        try:
            read(rows)
            if rows.later and not is_dated:
                raise BadDataError(
                    f"{rows.later} objects began after {iso(cell.end)}: the dump is younger.",
                    remedy="Say when it was taken in a WINDOW.json beside it.",
                )
        except KubetallyError as error:
            collected.gaps.append(Gap(dataset, window, str(error)))
            continue
        collected.batches.append(
            Batch(dataset, window, rows.frame(), ((start, end),), rows.sha256, tuple(rows.rejects))
        )
    return collected


class _Rows:
    """Rows of one dataset, sealed into compact frames as they grow; rejects and digest beside them."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset: Dataset = dataset
        self.rejects: list[Reject] = []
        self.later = 0  # objects that began after the cell
        # Hashing lets go of the interpreter: it runs beside the reading of the same page.
        self._hasher = ThreadPoolExecutor(1, "digest")
        self._start_over()

    def _start_over(self) -> None:
        self.rejects.clear()
        self.later = 0
        self._digest = hashlib.sha256()
        self.seen: set[str] = set()
        self._open: list[facts.Row] = []
        self._sealed: list[pl.DataFrame] = []

    def read(
        self,
        pages: Iterable[Page],
        kind: type[T],
        on_start: Callable[[], object] = lambda: None,
    ) -> Iterator[tuple[T, msgspec.Raw]]:
        """Each object of a list with its bytes. A list that starts over drops all that was held."""
        decoder = msgspec.json.Decoder(kind)
        for page in self.pages(pages, on_start):
            yield from decode_items(page.items, decoder, self.dataset, self.rejects)

    def pages(
        self, pages: Iterable[Page], on_start: Callable[[], object] = lambda: None
    ) -> Iterator[Page]:
        """Each page of a list, its bytes digested. A list that starts over drops all that was held."""
        for page in pages:
            if page.is_first:
                self._start_over()
                on_start()
            hashed = self._hasher.submit(self._digest.update, page.body)
            yield page
            hashed.result()

    def is_new(self, uid: str | None, raw: msgspec.Raw) -> bool:
        """Whether this uid comes for the first time; a second time is a reject."""
        if not uid:
            return True
        if uid in self.seen:
            self.rejects.append(reject(self.dataset, raw, "the list has it twice."))
            return False
        self.seen.add(uid)
        return True

    def add_frame(self, rows: pl.DataFrame) -> None:
        self._sealed.append(rows)

    def add(self, rows: list[facts.Row], *, is_later: bool = False) -> None:
        self.later += is_later
        self._open.extend(rows)
        if len(self._open) >= SEALED_ROWS:
            self._seal()

    def rejecting(self, raw: msgspec.Raw) -> _Rejecting:
        """A block in which impossible values reject the object `raw` alone."""
        return _Rejecting(self, raw)

    def absorb(self, other: _Rows) -> None:
        """Takes over the rejects and the digest of a list that was read beside this one."""
        self.rejects.extend(other.rejects)
        self.later += other.later
        self._digest.update(other._digest.digest())

    @property
    def sha256(self) -> str:
        self._hasher.shutdown()
        return self._digest.hexdigest()

    def frame(self) -> pl.DataFrame:
        self._seal()
        return pl.concat(self._sealed)

    def _seal(self) -> None:
        self._sealed.append(frame(self.dataset, self._open))
        self._open = []


class _Rejecting:
    def __init__(self, rows: _Rows, raw: msgspec.Raw) -> None:
        self._rows = rows
        self._raw = raw

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        # ArithmeticError, ValueError: a time at the edge of the calendar, a number beyond any scale.
        if isinstance(error, BadDataError | ArithmeticError | ValueError):
            self._rows.rejects.append(reject(self._rows.dataset, self._raw, str(error)))
            return True
        return False


class _Reader:
    """Reads each list into rows; keeps who the pods are for the usage that follows."""

    def __init__(self, pages: Pages, cell: Window) -> None:
        self._pages = pages
        self._cell = cell
        self._lives: Lives | None = None  # None = pods not known

    def namespaces(self, rows: _Rows) -> None:
        for namespace, raw in rows.read(self._pages(NAMESPACES), Namespace):
            with rows.rejecting(raw):
                found = facts.namespace_rows(namespace, self._cell)
                rows.add(found, is_later=not found)

    def nodes(self, rows: _Rows) -> None:
        for node, raw in rows.read(self._pages(NODES), Node):
            if rows.is_new(node.metadata.uid, raw):
                with rows.rejecting(raw):
                    found = facts.node_rows(node, self._cell)
                    rows.add(found, is_later=not found)

    def pods(self, rows: _Rows) -> None:
        columns = PodColumns(self._cell)
        decoder = msgspec.json.Decoder(Pod)
        later: dict[tuple[str, str], facts.Life] = {}

        def start_over() -> None:
            columns.drop()
            later.clear()

        for page in rows.pages(self._pages(PODS), on_start=start_over):
            unusual: Sequence[msgspec.Raw] = page.items
            if page.outlines is not None:
                unusual = self._outlined_pods(page, columns, rows)
                if len(columns) >= SEALED_ROWS:
                    rows.add_frame(columns.take())
            for pod, raw in decode_items(unusual, decoder, "pod", rows.rejects):
                if not rows.is_new(pod.metadata.uid, raw):
                    continue
                with rows.rejecting(raw):
                    found = facts.pod_rows(pod, self._cell)
                    rows.add(found.rows, is_later=not found.rows)
                    if found.left_out:
                        rows.rejects.append(
                            reject("pod", raw, f"it also asks for {', '.join(found.left_out)}.")
                        )
                    if not found.rows:
                        later[pod.metadata.namespace or "", pod.metadata.name or ""] = found.life
        rows.add_frame(columns.take())
        self._lives = Lives(rows.frame(), later)

    def _outlined_pods(self, page: Page, columns: PodColumns, rows: _Rows) -> Sequence[msgspec.Raw]:
        """Takes the ordinary pods of a page into `columns`; gives the bytes of the others."""
        unusual: list[int] = []
        deferred: set[str] = set()
        seen = rows.seen
        for position, pod in enumerate(page.outlines or ()):
            uid = pod.metadata.uid
            if not uid or uid in seen or uid in deferred:
                unusual.append(position)
                continue
            try:
                columns.add(pod)
            except (KubetallyError, ArithmeticError, ValueError, msgspec.DecodeError):
                unusual.append(position)
                deferred.add(uid)  # of two with one uid the first counts, whichever way it is read
                continue
            seen.add(uid)
        if not unusual:
            return ()
        items = page.raw_items()
        return [items[position] for position in unusual]

    def volumes(self, rows: _Rows) -> None:
        claims: dict[tuple[str, str], Claim] = {}
        own_rows: dict[tuple[str, str], list[facts.Row]] = {}
        beside = _Rows("volume")

        def start_over() -> None:
            claims.clear()
            own_rows.clear()

        for claim, raw in beside.read(self._pages(CLAIMS), Claim, on_start=start_over):
            with beside.rejecting(raw):
                key = (claim.metadata.namespace or "", claim.metadata.name or "")
                own_rows[key] = facts.claim_rows(claim, self._cell)
                claims[key] = claim
        bound: set[str] = set()
        for volume, raw in rows.read(self._pages(VOLUMES), Volume, on_start=bound.clear):
            if rows.is_new(volume.metadata.uid, raw):
                with rows.rejecting(raw):
                    found = facts.volume_rows(volume, claims, self._cell)
                    rows.add(found, is_later=not found)
                    bound.add(volume.metadata.name or "")
        rows.absorb(beside)
        for key, claim in claims.items():
            if not claim.spec or claim.spec.volume_name not in bound:
                rows.add(own_rows[key])

    def load_balancers(self, rows: _Rows) -> None:
        for service, raw in rows.read(self._pages(SERVICES), Service):
            if rows.is_new(service.metadata.uid, raw):
                with rows.rejecting(raw):
                    rows.add(facts.load_balancer_rows(service, self._cell))

    def usage(self, rows: _Rows) -> None:
        waiting: list[tuple[PodMetrics, msgspec.Raw]] = []
        for told in rows.read(self._pages(POD_METRICS), PodMetrics, on_start=waiting.clear):
            waiting.append(told)
            if len(waiting) >= USAGE_AT_ONCE:
                self._use(rows, waiting)
                waiting.clear()
        self._use(rows, waiting)

    def _use(self, rows: _Rows, told: list[tuple[PodMetrics, msgspec.Raw]]) -> None:
        names = [(pod.metadata.namespace or "", pod.metadata.name or "") for pod, _ in told]
        lives = self._lives.of(names) if self._lives else {}
        for name, (pod, raw) in zip(names, told, strict=True):
            for container in pod.containers or ():
                with rows.rejecting(raw):
                    life = lives.get(name)
                    rows.add(facts.usage_rows(pod.metadata, container, life, self._cell))


class Lives:
    """Who a (namespace, pod) is and when it held its request, by the rows that state it.

    Names are reused: usage told by name belongs to the pod that lives on. `later` are pods that began
    after the cell and so are not stated.
    """

    def __init__(self, pods: pl.DataFrame, later: dict[tuple[str, str], facts.Life]) -> None:
        self._pods = pods.select("namespace", "pod", "uid", "node", "phase", "start_at", "end_at")
        self._later = later

    def of(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], facts.Life]:
        """The lives of these; names that no pod bears are left out."""
        asked = pl.DataFrame(names, schema={"namespace": pl.String, "pod": pl.String}, orient="row")
        told = self._pods.join(asked, on=["namespace", "pod"], how="semi")
        best: dict[tuple[str, str], tuple[bool, facts.Life]] = {}
        for namespace, pod, uid, node, phase, start, end in told.iter_rows():
            is_holding = node is not None and phase not in facts.TERMINAL_PHASES
            found = (is_holding, facts.Life(uid, node, start, end if is_holding else start))
            known = best.get((namespace, pod))
            if known is None or _rank(*found) > _rank(*known):
                best[namespace, pod] = found
        lives = {name: self._later[name] for name in names if name in self._later}
        return lives | {name: life for name, (_, life) in best.items()}


def _rank(is_holding: bool, life: facts.Life) -> tuple[object, ...]:
    return (is_holding, life.end, life.start, life.uid)
