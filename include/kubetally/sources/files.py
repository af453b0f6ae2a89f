"""Recorded lists as a source: a folder of `kubectl get … -o json` answers, plain or gzipped.

For air-gapped clusters, for tests, for reading again what somebody stored. The folder (or any prefix
`ObjectStoragePath` can open: `s3://…`, `gs://…`, `file://…`) holds any of

    namespaces.json nodes.json pods.json persistentvolumes.json persistentvolumeclaims.json
    metrics.k8s.io-pods*.json

and, of the kubelets and exporters,

    cadvisor.prom.txt resource.prom.txt stats-summary.json dcgm.prom.txt syscalls.prom.txt

(of one node among several: `cadvisor@<node>.prom.txt`, and so on), each perhaps with `.gz`. A folder of
openshift-usage-scripts (`metrics-YYYY-MM-DD.json`, in it or in `data_YYYY-MM/` below it) is read by
stored_metrics.py and dates itself; so are stored answers of Prometheus (`query_range*.json`, or files
named after their metric), where the folder holds no pods.json. When the lists were taken stands in `WINDOW.json`:
`{"start": "2026-06-26T10:00:00Z", "end": "2026-06-26T11:00:00Z"}`; they are stated over that interval.
Without it they are taken to speak of the window that is asked for, unless they hold objects that began
after it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from kubetally.config import PROJECT, ClusterConfig, SourceConfig
from kubetally.errors import BadDataError, KubetallyError, SourceError
from kubetally.sources import stored_answers, stored_metrics
from kubetally.sources.kubelet.readings import (
    Row,
    cadvisor_readings,
    gpu_readings,
    stated,
    summary_readings,
    syscall_readings,
    with_syscalls,
)
from kubetally.sources.kubernetes.objects import Node, Page, Time, decode_page
from kubetally.sources.kubernetes.pages import CLAIMS, NODES, PODS, VOLUMES, Resource
from kubetally.sources.kubernetes.snapshot import DATASETS, collect_snapshot
from kubetally.sources.prometheus.collector import Collector
from kubetally.sources.rows import Batch, Collected, Gap, Reject, frame
from kubetally.windows import DAY, Window

SOURCE = "files"
WINDOW_FILE = "WINDOW.json"
# Of the first three the first that names a container speaks for its node.
STATISTICS = (
    ("cadvisor", ".prom.txt", cadvisor_readings),
    ("stats-summary", ".json", summary_readings),
    ("resource", ".prom.txt", cadvisor_readings),
    ("dcgm", ".prom.txt", gpu_readings),
    ("syscalls", ".prom.txt", syscall_readings),
)
ALTERNATIVES = ("cadvisor", "stats-summary", "resource")
MONTHLY = re.compile(r"data_\d{4}-\d\d")
MOST_BYTES = 4 * 1024**3  # of one file, unpacked


class Folder(Protocol):
    """The part of a path both `pathlib.Path` and `ObjectStoragePath` have."""

    @property
    def name(self) -> str: ...

    def iterdir(self) -> Iterable[Folder]: ...

    def read_bytes(self) -> bytes: ...


class _Dated(msgspec.Struct, forbid_unknown_fields=True):
    start: Time
    end: Time


def collect(
    cluster: ClusterConfig, source: SourceConfig, window: Window, *, now: datetime
) -> Collected:
    """Namespaces, nodes, pods, volumes and usage as the files of `source.path` tell them.

    A missing or unreadable file is a gap of its dataset. `now` is not used: files do not age.
    """
    try:
        files = _files(source.path)
        stored = _stored(source.path, files)
        if stored:
            return stored_metrics_of(stored, window)
        answers = _answers(files)
        if answers:
            return _collected_from(answers, source, window, now)
        dated = _dated(files)
    except KubetallyError as error:
        gaps = [Gap(dataset, window, str(error)) for dataset in DATASETS]
        return Collected(SOURCE, gaps=gaps)

    def pages(resource: Resource) -> Iterable[Page]:
        found = _of(files, resource)
        if found:
            return (_page(file, resource, is_first=n == 0) for n, file in enumerate(found))
        other = {CLAIMS: VOLUMES, VOLUMES: CLAIMS}.get(resource)
        if other and _of(files, other):
            return []  # one of the two lists is enough to know the storage
        raise SourceError(f"{source.path} holds no {resource.file_stem}.json.")

    cell = dated or window
    found = collect_snapshot(SOURCE, pages, window=window, cell=cell, is_dated=dated is not None)
    statistics = container_stats(files, window, cell)
    if isinstance(statistics, Batch):
        found.batches.append(statistics)
    elif statistics is not None:
        found.gaps.append(statistics)
    return found


def _answers(files: dict[str, Folder]) -> dict[str, Folder]:
    """Stored answers of Prometheus, where they are all the folder has of pods."""
    if "pods.json" in files or "pods.json.gz" in files:
        return {}
    names = stored_answers.asked_names()
    return {
        name: file
        for name, file in files.items()
        if name.removesuffix(".gz").endswith(".json")
        and (name.startswith("query_range") or name.split(".")[0] in names)
    }


def _collected_from(
    files: dict[str, Folder], source: SourceConfig, window: Window, now: datetime
) -> Collected:
    """What stored answers say about `window`, by the rules of the Prometheus source."""
    server = stored_answers.StoredAnswers()
    for name, file in files.items():
        server.add(name, _bytes(file))
    found = Collector(server, source).collect(window, max(now, window.end))
    found.source = SOURCE
    return found


def stored_metrics_of(files: dict[str, Folder], window: Window) -> Collected:
    """What openshift-usage-scripts stored about `window`; other datasets are gaps."""
    merged = stored_metrics.Merged()
    for name in sorted(files):
        first = _first_day(name)
        if first is not None and first >= window.end:
            continue  # its name says that it begins later
        body = _bytes(files[name])
        stored = stored_metrics.decode(name, body)
        # The eve is read too: a run of samples that reaches over midnight is one pod.
        if stored.window.start < window.end and stored.window.end > window.start - DAY:
            merged.add(name, stored, body)
    if merged.interval is None:
        reason = f"No stored metrics tell of {window}."
        return Collected(SOURCE, gaps=[Gap(dataset, window, reason) for dataset in DATASETS])
    reason = "Stored metrics tell of pods' requests and their nodes only."
    missing = [dataset for dataset in DATASETS if dataset not in ("pod", "node")]
    gaps = [Gap(dataset, window, reason) for dataset in missing]
    return Collected(SOURCE, stored_metrics.batches(merged, window), gaps)


def _stored(path: str, files: dict[str, Folder]) -> dict[str, Folder]:
    """Files of openshift-usage-scripts in the folder and in its monthly subfolders, by name."""
    found = {n: f for n, f in files.items() if stored_metrics.FILE_NAME.fullmatch(n)}
    for name in files:
        if MONTHLY.fullmatch(name.rstrip("/")):
            below = _files(f"{path.rstrip('/')}/{name}")
            found |= {n: f for n, f in below.items() if stored_metrics.FILE_NAME.fullmatch(n)}
    return found


def _first_day(name: str) -> datetime | None:
    try:
        return Window.of_day(date.fromisoformat(name.removeprefix("metrics-")[:10])).start
    except ValueError:
        return None


def container_stats(files: dict[str, Folder], window: Window, cell: Window) -> Batch | Gap | None:
    """What kubelets and exporters said, where the folder holds any of it."""
    start, end = max(window.start, cell.start), min(window.end, cell.end)
    if start >= end:
        return None
    rejects: list[Reject] = []
    digest = hashlib.sha256()
    told: dict[str, list[Row]] = {}
    nodes_told: set[str | None] = set()
    for kind, suffix, readings in STATISTICS:
        for name, node in _named(files, kind, suffix):
            if kind in ALTERNATIVES and node in nodes_told:
                continue
            try:
                body = _bytes(files[name])
                found = readings(body, node or _only_node(files), cell.end, rejects)
            except KubetallyError as error:
                return Gap("container_stats", window, f"{name}: {error}")
            digest.update(body)
            told.setdefault(kind, []).extend(found)
            if found:
                nodes_told.add(node)
    if not told:
        return None
    of_containers = [row for kind in (*ALTERNATIVES, "dcgm") for row in told.get(kind, ())]
    readings_of_all = with_syscalls(of_containers, told.get("syscalls", ()))
    rows = frame("container_stats", stated(readings_of_all, cell))
    covered = ((start, end),)
    sha256 = digest.hexdigest()
    return Batch("container_stats", window, rows, covered, sha256, tuple(rejects))


def _named(files: dict[str, Folder], stem: str, suffix: str) -> list[tuple[str, str | None]]:
    """Files `stem[@node]suffix[.gz]` and their nodes."""
    found: list[tuple[str, str | None]] = []
    for name in files:
        base = name.removesuffix(".gz")
        if base == stem + suffix:
            found.append((name, None))
        elif base.startswith(f"{stem}@") and base.endswith(suffix):
            found.append((name, base[len(stem) + 1 : -len(suffix)]))
    return found


def _only_node(files: dict[str, Folder]) -> str | None:
    """The node's name where the dump has but one."""
    try:
        found = _of(files, NODES)
        nodes = decode_page(_bytes(found[0])).items if found else ()
        named = msgspec.json.decode(nodes[0], type=Node).metadata.name if len(nodes) == 1 else None
    except (KubetallyError, msgspec.DecodeError):
        return None
    return named


def open_folder(path: str) -> Folder:
    """A local folder (relative to the project) or, with `://`, any object store Airflow can open."""
    if "://" in path:
        from airflow.sdk import ObjectStoragePath

        store: Folder = ObjectStoragePath(path)
        return store
    return PROJECT / Path(path).expanduser()


def _files(path: str) -> dict[str, Folder]:
    try:
        found = {entry.name: entry for entry in open_folder(path).iterdir()}
    except Exception as error:
        # Every object store raises exceptions of its own.
        raise SourceError(
            f"{path} cannot be listed: {type(error).__name__}.",
            remedy="Check the path, and the connection if it is an object store.",
        ) from error
    return dict(sorted(found.items()))


def _of(files: dict[str, Folder], resource: Resource) -> list[Folder]:
    """The files of a resource; metrics may come in several, everything else in one."""
    stem = resource.file_stem
    for suffix in (".json", ".json.gz"):
        if stem + suffix in files:
            return [files[stem + suffix]]
    if not resource.group:
        return []
    return [
        file
        for name, file in files.items()
        if name.startswith(stem) and name.endswith((".json", ".json.gz"))
    ]


def _page(file: Folder, resource: Resource, *, is_first: bool) -> Page:
    body = _bytes(file)
    try:
        return decode_page(body, is_first=is_first, outline_pods=resource is PODS)
    except BadDataError as error:
        raise BadDataError(f"{file.name}: {error}") from error


def _dated(files: dict[str, Folder]) -> Window | None:
    file = files.get(WINDOW_FILE)
    if file is None:
        return None
    try:
        dated = msgspec.json.decode(_bytes(file), type=_Dated)
    except msgspec.DecodeError as error:
        raise BadDataError(
            f"{WINDOW_FILE}: {error}.",
            remedy='Write {"start": "2026-06-26T10:00:00Z", "end": "2026-06-26T11:00:00Z"}.',
        ) from error
    return Window(dated.start, dated.end)


def _bytes(file: Folder) -> bytes:
    try:
        data: bytes = file.read_bytes()
        if not file.name.endswith(".gz"):
            return data
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            unpacked = packed.read(MOST_BYTES + 1)
        if len(unpacked) > MOST_BYTES:
            raise BadDataError(f"{file.name} unpacks to more than {MOST_BYTES} bytes.")
        return unpacked
    except BadDataError:
        raise
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise BadDataError(f"{file.name} is not a whole gzip file: {error}.") from error
    except Exception as error:
        raise SourceError(f"{file.name} cannot be read: {type(error).__name__}.") from error
