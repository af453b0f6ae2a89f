"""`python -m kubetally.local COMMAND`: what the Makefile's targets call."""

from __future__ import annotations

import argparse
import getpass
import os
import shlex
import signal
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kubetally.config import clusters
from kubetally.errors import KubetallyError
from kubetally.local import airflow, settings
from kubetally.local.run import Progress, run, run_day
from kubetally.local.stack import Stack
from kubetally.local.warehouse import published_days, reader, write_csv
from kubetally.windows import Window, parse_time

if TYPE_CHECKING:
    from sqlalchemy import Engine

COMMANDS = {
    "run": "start everything, fill the demo's days, say where to look",
    "stop": "stop everything, to the last process",
    "clean": "stop everything and delete it, databases included",
    "status": "what runs, and which days are published",
    "migrate": "bring the warehouse to the current version",
    "sql": "print a query's result as CSV, as the read-only BI role",
    "day": "run one day's window through costs_daily",
    "forget": "delete every row of one cluster",
    "gap": "say that a window of a cluster cannot be filled; its money shows as `uncovered`",
    "env": "print the environment as `export` lines (they hold passwords)",
    "airflow": "run an airflow command in this environment",
}


def main(arguments: list[str]) -> int:
    """The process's exit status: 0, or 1 with one message on stderr, or 130 when interrupted."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        env = settings.environment()
        stack = Stack(settings.from_environment(env), env)
        return _command(options, stack)
    except KubetallyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `make sql … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _command(options: argparse.Namespace, stack: Stack) -> int:
    match options.command:
        case "run":
            run(stack, Progress())
        case "stop":
            stack.stop(print)
        case "clean":
            stack.clean(print)
        case "status":
            return _status(stack)
        case "migrate":
            stack.make_home()
            stack.start_postgres()
            stack.migrate()
            print("The warehouse is up to date.")
        case "sql":
            _need_postgres(stack)
            write_csv(reader(stack.secrets, stack.warehouse_url), options.query, sys.stdout)
        case "day":
            run_day(stack, options.day, Progress())
        case "forget":
            _forget(stack, options.cluster)
        case "gap":
            _acknowledge(stack, options)
        case "env":
            for name, value in sorted(_own(stack).items()):
                print(f"export {name}={shlex.quote(value)}")
        case "airflow":
            _need_postgres(stack)
            os.execvpe(
                Path(sys.executable).with_name("airflow"),
                ["airflow", *options.arguments],
                stack.environment(),
            )
    return 0


def _own(stack: Stack) -> dict[str, str]:
    env = stack.environment()
    return {n: v for n, v in env.items() if n.startswith(("AIRFLOW", "KUBETALLY_", "PYTHONPATH"))}


def _need_postgres(stack: Stack) -> None:
    if stack.settings.embedded:
        if not stack.server.exists():
            raise KubetallyError("There is no warehouse yet.", remedy="Start with `make run`.")
        stack.start_postgres()


def _status(stack: Stack) -> int:
    health = stack.api.health() if stack.airflow.is_running() else {}
    running = {
        "postgres": stack.server.is_running() if stack.settings.embedded else "your own",
        "demo": stack.demo.is_running(),
        "airflow": stack.airflow.is_running(),
        **{name: (part or {}).get("status") for name, part in sorted(health.items())},
    }
    for name, state in running.items():
        print(f"{name:14} {state if isinstance(state, str) else 'running' if state else 'stopped'}")
    if health:
        print(f"{'address':14} {stack.ui_url}")
    if not running["postgres"]:
        return 0
    for cluster in clusters(env=stack.inherited):
        done = published_days(stack.secrets, stack.warehouse_url, cluster.name)
        whole = sorted(day for day, hours in done.items() if hours >= 24)
        span = f", {whole[0]} to {whole[-1]}" if whole else ""
        print(f"{'published':14} {cluster.name}: {len(whole)} whole days{span}")
    return 0


def _forget(stack: Stack, cluster: str) -> None:
    from kubetally.warehouse.forget import forget

    _need_postgres(stack)
    with _owner(stack).begin() as connection:
        forget(connection, cluster)
    print(f"Every row of cluster {cluster!r} is deleted.")
    if cluster == "demo":
        print("`make run` would fill it again: set KUBETALLY_DEMO=0, or leave it in.")


def _acknowledge(stack: Stack, options: argparse.Namespace) -> None:
    from kubetally.warehouse.land import acknowledge_gap

    known = [cluster.name for cluster in clusters(env=stack.inherited)]
    if options.cluster not in known:
        raise KubetallyError(
            f"No cluster is named {options.cluster!r}; configured: {', '.join(known) or 'none'}."
        )
    if not options.reason.strip():
        raise KubetallyError(
            "An acknowledged gap needs a reason.", remedy='Give it: REASON="Prometheus was down".'
        )
    window = Window(options.start, options.end)
    _need_postgres(stack)
    acknowledge_gap(
        _owner(stack),
        options.cluster,
        window,
        reason=options.reason.strip(),
        who=getpass.getuser(),
        now=datetime.now(UTC),
    )
    print(f"The gap {window} of {options.cluster} is acknowledged. Run its days again: `make day`.")


def _owner(stack: Stack) -> Engine:
    import sqlalchemy

    url = airflow.with_driver(stack.warehouse_url, "psycopg2")
    return sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kubetally.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = {name: commands.add_parser(name, help=text) for name, text in COMMANDS.items()}
    made["sql"].add_argument("query")
    made["day"].add_argument("day", type=_day)
    made["forget"].add_argument("cluster")
    made["gap"].add_argument("cluster")
    made["gap"].add_argument("start", type=_moment)
    made["gap"].add_argument("end", type=_moment)
    made["gap"].add_argument("reason")
    made["airflow"].add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day; write 2026-11-03") from None


def _moment(text: str) -> datetime:
    try:
        return parse_time(text if "T" in text else f"{text}T00:00:00Z")
    except KubetallyError as error:
        raise argparse.ArgumentTypeError(f"{error} Write 2026-11-03T12:00:00Z.") from None


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
