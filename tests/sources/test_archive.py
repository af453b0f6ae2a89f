"""The Parquet archive: off unless asked for, the very rows that land, never in the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from kubetally.sources.archive import archive
from kubetally.sources.rows import SCHEMAS, Batch, Collected, frame
from kubetally.windows import Window

START = datetime(2026, 11, 3, 10, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(hours=1))
ROWS = frame(
    "container_stats",
    [{"start_at": START, "end_at": WINDOW.end, "sampled_at": START, "cpu_seconds_total": "1.5"}],
)
COLLECTED = Collected("kubelet", [Batch("container_stats", WINDOW, ROWS, (), "0" * 64)])
NAME = "c/kubelet/container_stats/20261103T100000Z--20261103T110000Z.parquet"


def test_nothing_is_written_unless_asked_for() -> None:
    assert archive("c", COLLECTED, env={}) == []


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_rows_come_back_as_they_landed(tmp_path: Path, scheme: str) -> None:
    env = {"KUBETALLY_ARCHIVE": f"{scheme}{tmp_path}"}
    assert archive("c", COLLECTED, env=env) == archive("c", COLLECTED, env=env) == [NAME]
    found = pl.read_parquet(tmp_path / NAME)
    assert found.equals(ROWS)
    assert dict(found.schema) == SCHEMAS["container_stats"]


def test_a_place_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file")
    assert archive("c", COLLECTED, env={"KUBETALLY_ARCHIVE": str(tmp_path / "taken")}) == []
    assert "was not written to the archive" in caplog.text
