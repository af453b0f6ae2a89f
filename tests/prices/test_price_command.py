"""`python -m kubetally prices explain`: from the warehouse's snapshots, or from the list itself."""

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest
from price_pages import AT, PROJECT, key, page
from sqlalchemy import text

import scenes
from kubetally.__main__ import main
from kubetally.demo.server import DemoServer
from kubetally.prices import azure, book
from kubetally.prices.quote import Snapshot
from kubetally.warehouse.land import land

D2S = key("azure", "eastus", "Standard_D2s_v3")
LABELS = (
    "node.kubernetes.io/instance-type=Standard_D2s_v3,topology.kubernetes.io/region=eastus,"
    "kubernetes.io/os=linux"
)


@pytest.fixture
def priced(warehouse, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBETALLY_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("KUBETALLY_DEMO", "0")
    (tmp_path / "clusters.yaml").write_text(
        "clusters: [{name: scene, provider: azure, region: eastus,"
        " sources: [{kind: prometheus, connection: x}]}]"
    )
    body = page("azure/recorded_eastus_D2s_v3_all_types_preview.json")
    quote = azure.match(azure.decode_page(body).Items, D2S, AT)
    with warehouse.engine.begin() as connection:
        snapshot = Snapshot("azure", "https://prices.example/", AT, body)
        book.remember(connection, D2S.text, quote, snapshot, AT - timedelta(days=9))
    return warehouse


def test_labels_are_explained_from_the_snapshot_that_was_searched(priced, capsys):
    assert main(["prices", "explain", LABELS, "--at", "2026-11-03T10:00:00Z"]) == 0
    out = capsys.readouterr().out
    assert "Lookup key: azure/eastus/standard_d2s_v3/linux/on_demand" in out
    assert out.count(": dropped: ") == 8
    assert out.count(": kept") == 1
    assert "Counts: 0.096 USD per hour (priced, origin list)" in out


def test_a_node_is_explained_by_what_the_sources_said_of_it(priced, capsys):
    land(priced.engine, scenes.CLUSTER, scenes.collected(), now=scenes.NOW)
    with priced.engine.begin() as connection:
        connection.execute(
            text(
                "update raw.node_interval set instance_type = 'Standard_D2s_v3' where node = 'node-a'"
            )
        )
    at = ["--at", "2026-11-03T11:00:00Z"]
    assert main(["prices", "explain", "node-a", *at]) == 0
    assert "Counts: 0.096 USD per hour" in capsys.readouterr().out
    assert main(["prices", "explain", "node-b", "--cluster", "scene", *at]) == 0
    assert "Counts: unpriced" in capsys.readouterr().out
    assert main(["prices", "explain", "node-z", *at]) == 1
    assert "No source has spoken of a node 'node-z'" in capsys.readouterr().err


def test_live_asks_the_list_and_stores_nothing(priced, capsys, monkeypatch):
    with DemoServer() as demo:
        for name in ("AZURE", "AWS"):
            connection = json.dumps({"conn_type": "http", "host": demo.url})
            monkeypatch.setenv(f"AIRFLOW_CONN_KUBETALLY_{name}_PRICES", connection)
        for labels, said in (
            (LABELS, "The list says: 0.096 per hour"),
            (
                LABELS.replace("Standard_D2s_v3", "m5.large").replace("eastus", "eu-west-1")
                + ",eks.amazonaws.com/nodegroup=x",
                "The price book has not looked it up.",
            ),
        ):
            assert main(["prices", "explain", labels, "--live"]) == 0
            assert said in capsys.readouterr().out
    with priced.engine.connect() as connection:
        assert (
            connection.execute(text("select count(*) from core.price_snapshot")).scalar_one() == 1
        )


def test_a_list_that_does_not_answer_is_told_and_the_book_still_explained(
    priced, capsys, monkeypatch
):
    connection = json.dumps({"conn_type": "http", "host": "http://127.0.0.1:9"})
    monkeypatch.setenv("AIRFLOW_CONN_KUBETALLY_AZURE_PRICES", connection)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("kubetally.http.HttpClient.sleep", lambda *_: None)
    assert main(["prices", "explain", LABELS, "--live", "--at", "2026-11-03T10:00:00Z"]) == 0
    out = capsys.readouterr().out
    assert "The list cannot be shown" in out
    assert "Counts: 0.096 USD per hour" in out


def test_a_label_without_a_value_is_refused(priced, capsys):
    assert main(["prices", "explain", "a=b,c"]) == 1
    assert "'c' is not a label" in capsys.readouterr().err


def test_it_runs_as_a_module(priced):
    done = subprocess.run(
        [sys.executable, "-m", "kubetally", "prices", "explain", LABELS],
        env={**os.environ, "PYTHONPATH": str(PROJECT / "include")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Counts: 0.096 USD per hour" in done.stdout
