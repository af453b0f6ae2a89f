"""Recorded lists as a source: a folder of `kubectl get … -o json` answers, plain or gzipped.

For air-gapped clusters, for tests, for reading again what somebody stored. The folder (or any prefix
`ObjectStoragePath` can open: `s3://…`, `gs://…`, `file://…`) holds any of

    namespaces.json nodes.json pods.json persistentvolumes.json persistentvolumeclaims.json
    metrics.k8s.io-pods*.json

each perhaps with `.gz`. When the lists were taken stands in `WINDOW.json`:
`{"start": "2026-06-26T10:00:00Z", "end": "2026-06-26T11:00:00Z"}`; they are stated over that interval.
Without it they are taken to speak of the window that is asked for, unless they hold objects that began
after it.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from kubetally.config import PROJECT, ClusterConfig, SourceConfig
from kubetally.errors import BadDataError, KubetallyError, SourceError
from kubetally.sources.kubernetes.objects import Page, Time, decode_page
from kubetally.sources.kubernetes.pages import CLAIMS, PODS, VOLUMES, Resource
from kubetally.sources.kubernetes.snapshot import DATASETS, collect_snapshot
from kubetally.sources.rows import Collected, Gap
from kubetally.windows import Window

SOURCE = "files"
WINDOW_FILE = "WINDOW.json"
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

    return collect_snapshot(
        SOURCE, pages, window=window, cell=dated or window, is_dated=dated is not None
    )


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
