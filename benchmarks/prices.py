"""Prices under load: `PYTHONPATH=include python benchmarks/prices.py [--megabytes 1000] [--nodes 5000]`.

1. So many distinct nodes are priced from cached pages of all three providers; the goal is 5 seconds
   for 5,000. Baseline: a matcher that scans every row of the pages for every node.
2. An AWS offer file of so many megabytes, made from the recorded sample rows, is streamed over HTTP in
   a process of its own; the goal is 300 MB of memory for 1 GB. Baseline: `json.load` of a twentieth of
   it, extrapolated. The file lies in a temporary folder and is removed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice, product
from pathlib import Path

from kubetally.demo.price_lists import PAGES
from kubetally.prices import aws, azure, gcp
from kubetally.prices.key import LookupKey, NodeFacts, lookup_key
from kubetally.prices.quote import Priced
from kubetally.prices.resolve import Known, KnownComponent, resolve
from kubetally.windows import Window

AT = datetime(2026, 11, 3, 10, tzinfo=UTC)
SAMPLE = PAGES / "aws/reassembled_offer_AmazonEC2_eu-west-1_2023-02-23.json"
AZURE = "azure/reassembled_ondemand_linux_13regions_2026-06-18.json"
GCP = [f"gcp/reassembled_compute_skus_page{n}.json" for n in (1, 2, 3)]
REGIONS = ("us-central1", "europe-west1", "europe-west3", "asia-south1", "asia-southeast1")
READ = """
import json, resource, sys, time
start = time.perf_counter()
mode, where = sys.argv[1:]
if mode == "load":
    with open(where) as file:
        found = len(json.load(file)["products"])
else:
    from datetime import UTC, datetime
    from kubetally.http import HttpClient
    from kubetally.prices.fetch_aws import AwsOfferFiles
    from kubetally.prices.key import LookupKey
    source = AwsOfferFiles(HttpClient(where, attempts=1, timeout_seconds=(5.0, 600.0)))
    key = LookupKey("aws", "eu-west-1", "m5.large", "linux", "on_demand")
    quote, _ = source.quote(key, datetime.now(UTC))
    assert str(quote.components[0].unit_price) == "0.1070000000", quote
    found = source.offer_file(key).products_seen
try:  # getrusage would count what the parent held before exec
    status = open("/proc/self/status").read()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps([found, peak, time.perf_counter() - start]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=5000)
    options = parser.parse_args()
    price_nodes(options.nodes)
    stream_offer_file(options.megabytes)


def price_nodes(count: int) -> None:
    catalog_skus = [
        sku for name in GCP for sku in gcp.decode_page((PAGES / name).read_bytes()).skus
    ]
    items = azure.decode_page((PAGES / AZURE).read_bytes()).Items
    offers = aws.read_offer_file([SAMPLE.read_bytes()], lambda _: True).offers
    nodes = list(islice(cycle(distinct_nodes(items)), count))
    start = time.perf_counter()
    catalog = gcp.Catalog.of(catalog_skus)
    by_type: dict[tuple[str, str], list[azure.Item]] = {}
    for item in items:
        where = (item.arm_region_name or "", (item.arm_sku_name or "").lower())
        by_type.setdefault(where, []).append(item)
    m5 = [o for o in offers if o.product.says("instanceType") == "m5.large"]
    priced = 0
    for facts in nodes:
        key = lookup_key(facts)
        assert isinstance(key, LookupKey)
        if key.provider == "gcp":
            quote = gcp.match(catalog, key, AT)
        elif key.provider == "azure":
            quote = azure.match(by_type.get((key.region, key.instance_type), []), key, AT)
        else:
            quote = aws.match(m5, key, AT)
        parts = quote.components if isinstance(quote, Priced) else ()
        known = Known("priced", "", tuple(KnownComponent(part, 1) for part in parts))
        (price,) = resolve(facts, Window.of_hour(AT), key=key, known=known)
        priced += price.price_per_hour is not None
    ours = time.perf_counter() - start
    start = time.perf_counter()
    for facts in nodes[:100]:
        key = lookup_key(facts)
        assert isinstance(key, LookupKey)
        if key.provider == "gcp":
            gcp.match(catalog_skus, key, AT)
        elif key.provider == "azure":
            azure.match(items, key, AT)
        else:
            aws.match(offers, key, AT)
    scanning = (time.perf_counter() - start) / min(100, count) * count
    print(
        f"{count} nodes ({len(set(map(machine, nodes)))} different machines), {priced} priced:"
        f" {ours:.2f} s; scanning every row per node {scanning:.1f} s; ratio {scanning / ours:.1f}"
    )


def machine(facts: NodeFacts) -> tuple[str, str]:
    return facts.region, facts.instance_type


def distinct_nodes(items: list[azure.Item]) -> list[NodeFacts]:
    def node(number: int, scheme: str, region: str, kind: str) -> NodeFacts:
        name = f"{scheme}-{number}"
        return NodeFacts(
            "bench",
            f"uid-{name}",
            name,
            provider_id=f"{scheme}://x/y/{name}",
            region=region,
            instance_type=kind,
            os="linux",
            cpu_capacity_cores=Decimal(4),
            memory_capacity_bytes=Decimal(16 * 2**30),
        )

    customs = [
        node(n, "gce", region, f"{family}-custom-{cores}-{cores * gib * 1024}")
        for n, (region, family, cores, gib) in enumerate(
            product(REGIONS, ("n2", "n2d", "e2"), range(2, 66, 2), range(1, 9))
        )
    ]
    listed = [
        node(n, "azure", item.arm_region_name or "", item.arm_sku_name or "")
        for n, item in enumerate(items)
    ]
    return [*customs, *listed, node(0, "aws", "eu-west-1", "m5.large")]


def stream_offer_file(megabytes: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kubetally-offer-"))
    try:
        whole, part = folder / "whole.json", folder / "part.json"
        write_offer_file(whole, megabytes * 10**6)
        write_offer_file(part, megabytes * 10**6 // 20)
        with_server = serve(whole)
        products, peak, seconds = measured("stream", with_server)
        _, loaded_peak, loaded_seconds = measured("load", str(part))
        times = whole.stat().st_size / part.stat().st_size
        print(
            f"AWS offer file of {whole.stat().st_size / 1e6:.0f} MB, {products:.0f} products: streamed in"
            f" {seconds:.1f} s with a peak of {peak:.0f} MB"
            f" ({whole.stat().st_size / 1e6 / seconds:.0f} MB/s); json.load, extrapolated from"
            f" {part.stat().st_size / 1e6:.0f} MB: {loaded_seconds * times:.0f} s and"
            f" {loaded_peak * times:.0f} MB; ratio of memory {loaded_peak * times / peak:.0f}"
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measured(mode: str, where: str) -> tuple[float, float, float]:
    done = subprocess.run(
        [sys.executable, "-c", READ, mode, where], check=True, capture_output=True, text=True
    )
    found, peak, seconds = json.loads(done.stdout)
    return found, peak, seconds


def write_offer_file(path: Path, size: int) -> None:
    """The sample's rows again and again; copies have SKUs and machine types of their own."""
    sample = json.loads(SAMPLE.read_text())
    each = len(SAMPLE.read_bytes())
    copies = max(1, size // each)
    with path.open("w") as file:
        file.write('{"formatVersion":"v1.0","offerCode":"AmazonEC2","version":"1",')
        file.write('"publicationDate":"2026-11-01T00:00:00Z","products":{')
        file.write(",\n".join(texts(sample["products"], copies)))
        file.write('},"terms":{"OnDemand":{')
        file.write(",\n".join(texts(sample["terms"]["OnDemand"], copies)))
        file.write("}}}\n")


def texts(rows: dict[str, object], copies: int) -> Iterator[str]:
    plain = {sku: json.dumps(row, separators=(",", ":")) for sku, row in rows.items()}
    for number in range(copies):
        for sku, text in plain.items():
            if number:
                copy = f"{sku[:-6]}{number:06d}"
                renamed = text.replace(sku, copy).replace('large"', f'large-{number}"')
                yield f'"{copy}":{renamed}'
            else:
                yield f'"{sku}":{text}'


def serve(path: Path) -> str:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            with path.open("rb") as file:
                shutil.copyfileobj(file, self.wfile, 1 << 20)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


if __name__ == "__main__":
    main()
