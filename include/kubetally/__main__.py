"""`python -m kubetally COMMAND`: what an operator asks by hand. Connections come from Airflow's.

On a machine set up by `make run`, its connections are used unless others are in the environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime

from kubetally.errors import KubetallyError
from kubetally.windows import parse_time


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0, or 1 with one message on stderr."""
    options = _parser().parse_args(arguments)
    try:
        _use_local_connections()
        now = datetime.now(UTC)
        if options.area == "doctor":
            from kubetally.doctor.command import report

            text, has_failed = report(options.cluster, now, is_json=options.json)
            print(text)
            return int(has_failed)
        from kubetally.prices.command import explain_price

        at = parse_time(options.at) if options.at else now
        print(explain_price(options.node, at, cluster=options.cluster, live=options.live, now=now))
    except KubetallyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kubetally", description=__doc__)
    areas = parser.add_subparsers(dest="area", required=True)
    prices = areas.add_parser("prices", help="the price book").add_subparsers(
        dest="command", required=True
    )
    looks = areas.add_parser(
        "doctor", help="what of a cluster is reachable, missing, doubled; exit status 1 on FAIL"
    )
    looks.add_argument("cluster", metavar="CLUSTER", help="as named in clusters.yaml")
    looks.add_argument("--json", action="store_true", help="findings as JSON")
    explain = prices.add_parser(
        "explain", help="every candidate row of a node's price, and why it was kept or dropped"
    )
    explain.add_argument("node", metavar="NODE|LABELS", help="a name, or name=value,name=value")
    explain.add_argument("--at", default="", metavar="TIME", help="RFC 3339; now if not given")
    explain.add_argument("--cluster", default="", help="where several have a node of that name")
    explain.add_argument(
        "--live", action="store_true", help="judge the provider's list as it is now"
    )
    return parser


def _use_local_connections() -> None:
    if "AIRFLOW_CONN_KUBETALLY_PUBLISHER" in os.environ:
        return
    from kubetally.local import settings
    from kubetally.local.stack import Stack

    env = settings.environment()
    stack = Stack(settings.from_environment(env), env)
    if not stack.settings.home.exists():
        return
    for name, value in stack.environment().items():
        if name.startswith("AIRFLOW_CONN_"):
            os.environ.setdefault(name, value)


if __name__ == "__main__":
    sys.exit(main())
