"""The programs of a local run and how they fit together: Postgres, the demo server, Airflow."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psycopg2
from psycopg2 import sql

from kubetally.config import PROJECT, clusters
from kubetally.errors import KubetallyError
from kubetally.local import airflow, postgres, settings
from kubetally.local.api import Api
from kubetally.local.background import Background
from kubetally.local.files import write_private
from kubetally.local.settings import HOST, Secrets, Settings

WAREHOUSE = "kubetally"
METADATA = "kubetally_airflow"
MADE_HERE = (
    "airflow",
    "logs",
    "run",
    "postgres",
    "reports",
    "secrets.json",
    "ports.json",
    "lock",
)
Say = Callable[[str], None]


@dataclass
class Stack:
    """One local run, named by `settings.home`. Every `start_…` is safe to call again."""

    settings: Settings
    inherited: Mapping[str, str]

    def make_home(self) -> None:
        """Creates the home folder, private to this user. Raises KubetallyError if it cannot."""
        try:
            self.settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.settings.home / "run").mkdir(mode=0o700, exist_ok=True)
        except PermissionError as error:
            raise KubetallyError(
                f"{error.filename} cannot be written by this user.",
                remedy="Run as the user that made it, or set KUBETALLY_HOME to another folder.",
            ) from error

    @cached_property
    def secrets(self) -> Secrets:
        try:
            return settings.load_secrets(self.settings.home)
        except (FileNotFoundError, PermissionError) as error:
            raise KubetallyError(
                f"There is nothing of this user's in {self.settings.home} yet.",
                remedy="Start with `make run`.",
            ) from error

    @cached_property
    def server(self) -> postgres.Server:
        return postgres.Server(self.settings.home / "postgres")

    @property
    def admin_url(self) -> str:
        """libpq URL of a role that may create roles (and databases)."""
        given = self.settings.warehouse_url or self.settings.postgres_url
        return _libpq(given) if given else self.server.superuser_url

    @property
    def warehouse_url(self) -> str:
        """libpq URL of the warehouse as its owner."""
        if self.settings.warehouse_url:
            database = self.settings.warehouse_url.partition("://")[2].partition("/")[2]
            database = database.partition("?")[0]
        else:
            database = WAREHOUSE
        owner = "kubetally_owner"
        return airflow.with_login(self.admin_url, owner, self.secrets[owner], database)

    @property
    def metadata_url(self) -> str:
        """libpq URL of Airflow's own database."""
        if self.settings.airflow_url:
            return _libpq(self.settings.airflow_url)
        base = _libpq(self.settings.postgres_url) or self.server.superuser_url
        return airflow.with_login(base, METADATA, self.secrets[METADATA], METADATA)

    def start_postgres(self) -> None:
        """Starts the embedded server unless settings name another.

        Airflow's parts do not all survive the loss of their database, and some look healthy for a
        while: an Airflow that outlived the server is stopped, for `start_airflow` to begin anew.
        """
        if self.settings.embedded and not self.server.is_running():
            if self.airflow.is_running():
                self.airflow.stop()
            self.server.start()

    def migrate(self) -> None:
        """Creates or upgrades the warehouse, and makes Airflow's (still empty) database.

        Raises KubetallyError with what Postgres says when it refuses.
        """
        from sqlalchemy.exc import SQLAlchemyError

        from kubetally.warehouse.migrate import migrate

        try:
            if not self.settings.airflow_url:
                base = _libpq(self.settings.postgres_url) or self.server.superuser_url
                _make_database(base, METADATA, METADATA, self.secrets[METADATA])
            database, owner = _database(self.warehouse_url), "kubetally_owner"
            _make_database(self.admin_url, database, owner, self.secrets[owner])
            migrate(self.admin_url, database, self.secrets.passwords)
        except (psycopg2.Error, SQLAlchemyError) as error:
            raise KubetallyError(
                f"Postgres refused: {str(getattr(error, 'orig', error)).strip()}",
                remedy="The login must exist and may create roles and databases.",
            ) from error

    @property
    def ui_port(self) -> int:
        return settings.remembered_port(self.settings.home, "ui", self.settings.ui_port)

    @property
    def ui_url(self) -> str:
        return f"http://{HOST}:{self.ui_port}"

    @property
    def demo_url(self) -> str:
        if not self.settings.demo:
            return ""
        return f"http://{HOST}:{settings.remembered_port(self.settings.home, 'demo', 0)}"

    @property
    def demo(self) -> Background:
        return Background("demo", self.settings.home)

    @property
    def airflow(self) -> Background:
        return airflow.background(self.settings)

    @cached_property
    def api(self) -> Api:
        return Api(self.ui_url, airflow.ADMIN, self.secrets["admin"])

    def environment(self) -> dict[str, str]:
        """What every Airflow process, and every command of ours that reads the warehouse, needs."""
        only_demo = [cluster.name for cluster in clusters(env=self.inherited)] == ["demo"]
        return airflow.airflow_environment(
            self.settings,
            self.secrets,
            inherited=self.inherited,
            metadata_url=self.metadata_url,
            connections=airflow.connections(
                self.settings,
                self.secrets,
                warehouse_url=self.warehouse_url,
                demo_url=self.demo_url,
                demo_prices=self.demo_url if only_demo else "",
            ),
            ui_port=self.ui_port,
        )

    def start_demo(self) -> None:
        """Starts the demo cluster's server and waits until it listens."""
        if self.demo.is_running():
            return
        port = int(self.demo_url.rpartition(":")[2])
        if _listens(port):  # someone else's program took it since
            port = settings.choose_port(self.settings.home, "demo", 0)
        command = [sys.executable, "-m", "kubetally.demo", "serve", "--host", HOST]
        self.demo.start([*command, "--port", str(port)], self.environment())
        deadline = time.monotonic() + 60
        while not _listens(port):
            if not self.demo.is_running() or time.monotonic() > deadline:
                raise KubetallyError(f"The demo did not start:\n{self.demo.last_lines()}")
            time.sleep(0.1)

    def start_airflow(self) -> bool:
        """Starts Airflow, or restarts it when its settings changed; True if it had to.

        Returns at once: `airflow.wait_until_healthy` waits.
        """
        stamp = self.settings.home / "run" / "airflow.sha256"
        if self.airflow.is_running():
            if stamp.exists() and stamp.read_text("utf-8") == self._fingerprint():
                return False
            self.airflow.stop()
        if _listens(self.ui_port):
            settings.choose_port(self.settings.home, "ui", self.settings.ui_port)
            self.__dict__.pop("api", None)
        airflow.start(self.settings, self.secrets, self.environment())
        write_private(stamp, self._fingerprint())
        return True

    def _fingerprint(self) -> str:
        """Changes with everything a running Airflow would not notice by itself."""
        ours = {
            name: value
            for name, value in self.environment().items()
            if name.startswith(("AIRFLOW", "KUBETALLY_"))
        }
        for path in (*(PROJECT / "plugins").rglob("*.py"), PROJECT / "requirements.txt"):
            ours[str(path)] = str(path.stat().st_mtime_ns)
        return hashlib.sha256(json.dumps(ours, sort_keys=True).encode()).hexdigest()

    def stop(self, say: Say = lambda _: None) -> None:
        """Ends every process of this run, to the last child. Safe to call again."""
        for name, background in (("Airflow", self.airflow), ("the demo", self.demo)):
            if background.is_running():
                background.stop()
                say(f"Stopped {name}.")
        if self.settings.embedded and self.server.is_running():
            self.server.stop()
            say("Stopped Postgres.")

    def clean(self, say: Say = lambda _: None) -> None:
        """Stops everything and deletes what this run made, its databases included.

        Databases in a Postgres of the user's own are left alone.
        """
        self.stop(say)
        if self.settings.embedded:
            self.server.destroy()
            postgres.remove_binaries()
        home = self.settings.home
        for name in MADE_HERE:  # by name: KUBETALLY_HOME may point at a folder with other things
            path = home / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            home.rmdir()
        say(f"Kept what is not ours in {home}." if home.exists() else f"Removed {home}.")
        if not self.settings.embedded:
            say("Your own Postgres still holds the databases: drop them there if you want.")


def _make_database(admin_url: str, name: str, owner: str, password: str) -> None:
    """A database `name` of the role `owner`, closed to all others. One that exists is handed over."""
    connection = psycopg2.connect(admin_url, connect_timeout=10)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            role, database = sql.Identifier(owner), sql.Identifier(name)
            cursor.execute("select 1 from pg_roles where rolname = %s", [owner])
            verb = sql.SQL("alter" if cursor.fetchone() else "create")
            cursor.execute(
                sql.SQL("{} role {} login password {}").format(verb, role, sql.Literal(password))
            )
            cursor.execute(
                "select pg_get_userbyid(datdba) from pg_database where datname = %s", [name]
            )
            found = cursor.fetchone()
            if found and found[0] == owner:
                return
            cursor.execute(sql.SQL("grant {} to current_user").format(role))
            change = "alter database {} owner to {}" if found else "create database {} owner {}"
            cursor.execute(sql.SQL(change).format(database, role))
            cursor.execute(sql.SQL("revoke all on database {} from public").format(database))
    finally:
        connection.close()


def _libpq(url: str) -> str:
    return f"postgresql://{url.partition('://')[2]}" if url else ""


def _database(url: str) -> str:
    return Path(url.partition("://")[2].partition("?")[0]).name


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
