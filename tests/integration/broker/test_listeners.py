"""A broker with several listeners: each is served, and its clients stay on it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.protocol.definitions.metadata import MetadataRequest
from tests.integration.broker.conversation import create_topic, fetch, produce_ok, values_in
from tests.wire_client import WireClient


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of a broker's two listeners, by name."""
    settings = {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
        "advertised.listeners": "EXTERNAL://localhost:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    broker = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "broker", "--json", "--data-dir", str(tmp_path), *options],
        stdout=subprocess.PIPE,
    )
    try:
        assert broker.stdout is not None
        ready = json.loads(broker.stdout.readline())
        runtime = json.loads((tmp_path / "broker.json").read_text())
        assert ready["port"] == runtime["port"]
        assert runtime["listeners"]["INTERNAL"] == f"127.0.0.1:{ready['port']}"
        yield runtime["listeners"]
    finally:
        broker.terminate()
        broker.communicate()


def test_each_listener_serves_and_advertises_itself(listeners: dict[str, str]) -> None:
    assert list(listeners) == ["INTERNAL", "EXTERNAL"]
    assert listeners["EXTERNAL"].startswith("localhost:")
    with WireClient(listeners["INTERNAL"]) as internal, WireClient(listeners["EXTERNAL"]) as external:
        for client, address in ((internal, listeners["INTERNAL"]), (external, listeners["EXTERNAL"])):
            (broker,) = client.ask(MetadataRequest(topics=[]), 12).brokers
            assert f"{broker.host}:{broker.port}" == address
        topic = create_topic(internal, "topic")
        produce_ok(internal, topic, b"x")
        assert values_in(fetch(external, topic, 0)) == [b"x"]
