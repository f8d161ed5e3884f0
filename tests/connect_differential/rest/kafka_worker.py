"""Kafka's own Connect worker, distributed, on a Penstock broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.apache_kafka import free_ports
from penstock.testing.broker import Broker
from tests.connect_differential.rest.our_worker import JSON_CONVERTER
from tests.connect_differential.rest.script import PATIENCE_S, wait_until
from tests.kafka_applications.java_programs import JavaProgram, write_properties


@contextmanager
def kafka_worker(directory: Path) -> Iterator[str]:
    directory.mkdir()
    (port,) = free_ports(1)
    with Broker(config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "connect",
            "listeners": f"http://127.0.0.1:{port}",
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": "0",
            "exactly.once.source.support": "enabled",
        }
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        # Offsets of a sink can be set for partitions that exist.
        admin.create_topics([NewTopic("lines", 1, 1)])["lines"].result(PATIENCE_S)
        file = write_properties(directory / "worker.properties", settings)
        program = JavaProgram(directory, "org.apache.kafka.connect.cli.ConnectDistributed", [str(file)], [])
        with program:
            program.start()
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: _is_healthy(url, program), f"a worker on {url}")
            yield url


def _is_healthy(url: str, program: JavaProgram) -> bool:
    assert program.is_running(), program.output[-4000:]
    try:
        return httpx.get(f"{url}/health", timeout=10).status_code == 200
    except httpx.TransportError:
        return False
