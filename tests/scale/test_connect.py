"""`penstock connect` on Apache Kafka and a Spark cluster: a file, a topic and a file, exactly once under a kill."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.testing.apache_kafka import ApacheKafka
from tests.pipeline.connect.worker_command import WorkerCommand, becomes_true
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed
from tests.scale.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

LINES = 20_000
WAIT_S = 300
STRING = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}


def test_lines_arrive_once_although_the_worker_is_killed(
    cluster: StandaloneCluster, apache_kafka: ApacheKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster's machines are this one, so a file is a shared directory."""
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    servers = apache_kafka.bootstrap_servers
    topic = TopicFeed(servers).create(partitions=2)
    incoming, outgoing = tmp_path / "in.txt", tmp_path / "out.txt"
    settings = {
        "group.id": topic,
        **{f"{kind}.storage.topic": f"{topic}-{kind}" for kind in ("config", "offset", "status")},
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
    }
    portions = 0

    def append() -> None:
        nonlocal portions
        with incoming.open("a") as file:
            file.writelines(f"{number}\n" for number in range(portions * LINES, (portions + 1) * LINES))
        portions += 1

    def written() -> int:
        return outgoing.read_bytes().count(b"\n") if outgoing.exists() else 0

    def all_written() -> bool:
        return written() >= portions * LINES

    def new_worker() -> WorkerCommand:
        return WorkerCommand(servers, tmp_path / "worker.log", "--master", cluster.url, settings=settings)

    append()
    with new_worker() as worker:
        worker.create(
            "reader", {"connector.class": "FileStreamSource", "file": str(incoming), "topic": topic, **STRING}
        )
        sink = {"connector.class": "FileStreamSink", "file": str(outgoing), "topics": topic, "tasks.max": "2"}
        worker.create("writer", {**sink, "guarantee": "exactly_once", **STRING})
        becomes_true(lambda: written() > 0, "the first lines are written", WAIT_S)
        append()
        worker.kill()
    with new_worker() as worker:
        append()
        becomes_true(all_written, "all lines are written", WAIT_S)
        assert worker.states("reader") == ["RUNNING", "RUNNING"]
        assert worker.states("writer")[0] == "RUNNING"
        assert worker.stop() == 0
    expected = Counter(str(number) for number in range(portions * LINES))
    assert Counter(record.value.decode() for record in contents(servers, topic) if record.value) == expected
    assert Counter(outgoing.read_text().split()) == expected
