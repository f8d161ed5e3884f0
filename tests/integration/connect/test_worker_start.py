"""What a worker answers, and what it has imported, while it starts."""

from __future__ import annotations

import http.client
import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.connect.runtime.spark_jobs import SparkJobs
from penstock.connect.storage.topic_table import TopicTable
from penstock.connect.worker import DEFAULTS, Worker
from penstock.testing import Broker
from tests.integration.connect.workers import ConnectCluster
from tests.unit.connect.herder.fakes import eventually

PATHS = (
    "/connectors",
    "/connectors?expand=status",
    "/connectors/old",
    "/connectors/old/config",
    "/connectors/old/status",
)
_TOO_EARLY_S = 0.2


def no_spark() -> Any:
    pytest.fail("no connector of this test runs")


def worker_of(cluster: ConnectCluster) -> Worker:
    return Worker({**DEFAULTS, **cluster.properties, "listeners": "http://127.0.0.1:0"}, SparkJobs(no_spark))


def asked(worker: Worker, path: str) -> http.client.HTTPConnection:
    address = urlsplit(worker.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.request("GET", path)
    return connection


def answer(connection: http.client.HTTPConnection) -> tuple[int, Any]:
    response = connection.getresponse()
    content = json.loads(response.read())
    connection.close()
    return response.status, content


def test_requests_of_a_starting_worker_see_connectors_that_were_created_earlier(
    broker: Broker, cluster: ConnectCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"connector.class": "FileStreamSink", "topics": "t", "file": str(tmp_path / "out")}
    with worker_of(cluster) as first:
        first.herder.create("old", config, "STOPPED")
        eventually(
            lambda: answer(asked(first, "/connectors/old/status"))[1].get("connector", {}).get("state") == "STOPPED"
        )
    worker = worker_of(cluster)
    asking: list[http.client.HTTPConnection] = []
    read = TopicTable.start

    def read_while_asked(table: TopicTable, *arguments: Any) -> None:
        asking.extend(asked(worker, path) for path in PATHS)
        select.select([each.sock for each in asking], [], [], _TOO_EARLY_S)  # an answer now would come too early
        read(table, *arguments)

    monkeypatch.setattr(TopicTable, "start", read_while_asked)
    with worker:
        answers = [answer(each) for each in asking]
    assert [status for status, _content in answers] == [200] * 2 * len(PATHS)
    names, expanded, info, found, status = (content for _status, content in answers[: len(PATHS)])
    assert names == ["old"]
    assert expanded["old"]["status"]["connector"]["state"] == "STOPPED"
    assert info["config"] == found == {**config, "name": "old"}
    assert status["connector"]["state"] == "STOPPED"


def test_rest_needs_neither_arrow_nor_spark() -> None:
    """Importing those takes longer than all the rest of a worker's start."""
    program = "import sys, penstock.cli.connect, penstock.connect.worker, penstock.connect.runtime.spark_start\n"
    program += "print(*sorted({'numpy', 'pyarrow', 'numba', 'pyspark', 'py4j', 'confluent_kafka'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
