"""`python -m kubetally.demo serve` runs the demo cluster, `… truth` prints what it costs."""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import sys
from datetime import UTC, date, datetime

from kubetally.demo.scenario import Scenario
from kubetally.demo.server import DemoServer, wall_clock
from kubetally.demo.truth import cost_by_owner
from kubetally.windows import parse_time


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kubetally.demo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="run the demo cluster's APIs")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8099)
    serve.add_argument("--token", default="", help="bearer token of the Kubernetes API")
    serve.add_argument("--at", default="", help="stop the clock at this RFC 3339 time")
    truth = commands.add_parser("truth", help="print what a day really cost, by owner and line")
    truth.add_argument("--day", type=date.fromisoformat, required=True, help="UTC day, 2026-11-03")
    truth.add_argument("--json", action="store_true", help="JSON instead of CSV")
    for command in (serve, truth):
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--cluster", default="demo")
        command.add_argument("--provider", choices=("azure", "gcp"), default="azure")
        command.add_argument("--nodes", type=int, default=1, help="multiplies the nodes")
        command.add_argument(
            "--pods", type=float, default=1.0, help="multiplies the services' pods"
        )
        command.add_argument("--scrape-interval", type=int, default=60, metavar="SECONDS")
    options = parser.parse_args(arguments)
    scenario = Scenario(
        seed=options.seed,
        cluster=options.cluster,
        provider=options.provider,
        node_scale=options.nodes,
        pod_scale=options.pods,
        scrape_interval_seconds=options.scrape_interval,
    )
    if options.command == "serve":
        return _serve(scenario, options)
    return _truth(scenario, options)


def _serve(scenario: Scenario, options: argparse.Namespace) -> int:
    stopped = parse_time(options.at) if options.at else None

    def clock() -> datetime:
        return stopped or wall_clock().astimezone(UTC)

    server = DemoServer(
        scenario, clock=clock, host=options.host, port=options.port, token=options.token
    )
    print(f"The demo cluster {scenario.cluster!r} answers at {server.url}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return 0


def _truth(scenario: Scenario, options: argparse.Namespace) -> int:
    rows = [
        {
            "owner": owner,
            "line": line,
            "cost": None if cost is None else str(cost),
            "currency": "USD",
        }
        for (owner, line), cost in cost_by_owner(scenario, options.day).items()
    ]
    if options.json:
        json.dump(rows, sys.stdout, indent=2)
        print()
    else:
        writer = csv.DictWriter(
            sys.stdout, ["owner", "line", "cost", "currency"], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
