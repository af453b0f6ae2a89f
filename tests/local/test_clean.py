"""`make clean` removes what a run made, by name, and nothing else."""

from __future__ import annotations

from pathlib import Path

from kubetally.local.settings import Settings
from kubetally.local.stack import MADE_HERE, Stack


def stack(home: Path) -> Stack:
    return Stack(Settings(home), {})


def test_everything_of_ours_goes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in MADE_HERE:
        (home / name).mkdir(parents=True)
        (home / name / "file").touch()
    said: list[str] = []
    stack(home).clean(said.append)
    assert not home.exists()
    assert said == [f"Removed {home}."]


def test_a_home_with_other_things_in_it_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "thesis.tex").touch()
    said: list[str] = []
    stack(tmp_path).clean(said.append)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert said == [f"Kept what is not ours in {tmp_path}."]


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    home = tmp_path / "home"
    home.mkdir()
    (home / "logs").symlink_to(elsewhere)
    stack(home).clean()
    assert (elsewhere / "kept").exists()
    assert not home.exists()
