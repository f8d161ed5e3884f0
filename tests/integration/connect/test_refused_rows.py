"""A JDBC sink whose table refuses some rows: from the topic to the table, the ledger and the dead letters."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.connect.runtime.runner import Execution, Report, State
from penstock.connect.runtime.spark_jobs import SparkJobs
from penstock.connect.runtime.spark_runner import SparkRunner
from penstock.connect.storage.committed_records import committed_records
from penstock.core.ids import TopicPartition
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.testing import Broker
from penstock.wire.client import WireClient
from tests.integration.connect.workers import ConnectCluster
from tests.unit.connect.herder.fakes import eventually

STRING = "org.apache.kafka.connect.storage.StringConverter"
SCHEMA = {
    "type": "struct",
    "fields": [{"field": "id", "type": "int64"}, {"field": "amount", "type": "int64", "optional": True}],
}
AMOUNTS = [1, None, 3, -4, 5, 6, 0, 8]
BAD = [1, 3, 6]


class Here:
    """Jobs without Spark: tasks run one after the other in this process."""

    def run(self, _group: str, function: Callable[[Any], Any], tasks: Sequence[Any], _stop: Any = None) -> list[Any]:
        return [function(task) for task in tasks]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_refused_rows_are_dead_letters_and_all_others_are_written(
    broker: Broker, cluster: ConnectCluster, tmp_path: Path, guarantee: str
) -> None:
    topic, letters = f"{cluster.name}-orders", f"{cluster.name}-letters"
    database = tmp_path / "shop.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, amount BIGINT NOT NULL CHECK (amount > 0))")
    connection.close()
    config = {
        "name": cluster.name,
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": f"jdbc:sqlite:{database}",
        "topics": topic,
        "table.name.format": "orders",
        "guarantee": guarantee,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    runner = SparkRunner(
        {**cluster.properties, "key.converter": STRING, "value.converter": STRING}, cast(SparkJobs, Here())
    )
    with WireClient({"bootstrap.servers": broker.bootstrap_servers}) as client:
        client.create_topic(topic, partitions=1, replication_factor=1)
        for records in ([0, 1, 2, 3, 4], [5, 6, 7]):
            values = [
                json.dumps({"schema": SCHEMA, "payload": {"id": each, "amount": AMOUNTS[each]}}) for each in records
            ]
            batch = encode_batch([NewRecord(None, value.encode(), 1000) for value in values])[0]
            client.produce({TopicPartition(topic, 0): batch})
        reports: list[Report] = []
        stop = threading.Event()
        execution = Execution(cluster.name, config, 1, reports.append, stop)
        thread = threading.Thread(target=runner.run, args=(execution,))
        thread.start()
        try:
            eventually(
                lambda: (
                    runner.offsets(cluster.name, config) == {TopicPartition(topic, 0): len(AMOUNTS)}
                    or any(each.state is State.FAILED for each in reports)
                )
            )
        finally:
            stop.set()
            thread.join()
        assert [each.trace for each in reports if each.state is not State.RUNNING] == []
        found = list(committed_records(client.fetch(TopicPartition(letters, 0), 0), 0))
    said = [dict(record.headers) for record in found]
    assert [json.loads(record.value or b"")["payload"]["id"] for record in found] == BAD
    assert [headers["__connect.errors.offset"] for headers in said] == [str(each).encode() for each in BAD]
    assert {headers["__connect.errors.stage"] for headers in said} == {b"TASK_PUT"}
    with sqlite3.connect(database) as connection:
        kept = connection.execute("SELECT id, amount FROM orders ORDER BY id").fetchall()
    connection.close()
    assert kept == [(number, amount) for number, amount in enumerate(AMOUNTS) if number not in BAD]
