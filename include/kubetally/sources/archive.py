"""Batches as Parquet beside the warehouse, in a folder or any object store; off by default.

KUBETALLY_ARCHIVE names the place (`s3://bucket/prefix`, `gs://…`, a folder). A batch is written to
`<cluster>/<source>/<dataset>/<start>--<end>.parquet`; writing the same window again replaces the file.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Mapping
from typing import Any

from kubetally.sources.rows import Batch, Collected

log = logging.getLogger(__name__)
SETTING = "KUBETALLY_ARCHIVE"


def archive(cluster: str, collected: Collected, env: Mapping[str, str] = os.environ) -> list[str]:
    """Writes every batch where the setting says, and gives the names; nothing without the setting.

    A place that cannot be written is a warning: the warehouse has the data.
    """
    place = env.get(SETTING, "")
    if not place:
        return []
    from kubetally.sources.files import open_folder

    written: list[str] = []
    for batch in collected.batches:
        name = name_of(cluster, collected.source, batch)
        buffer = io.BytesIO()
        batch.rows.write_parquet(buffer)
        try:
            folder: Any = open_folder(place)
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(buffer.getvalue())
        except Exception as error:
            # Every object store raises exceptions of its own.
            log.warning("%s was not written to the archive: %s", name, type(error).__name__)
            continue
        written.append(name)
    return written


def name_of(cluster: str, source: str, batch: Batch) -> str:
    """Where a batch goes below the archive."""
    start, end = (f"{moment:%Y%m%dT%H%M%SZ}" for moment in (batch.window.start, batch.window.end))
    return f"{cluster}/{source}/{batch.dataset}/{start}--{end}.parquet"
