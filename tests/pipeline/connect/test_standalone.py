"""A standalone worker, from its files: offsets of sources are in `offset.storage.file.filename`, and nowhere else."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from penstock.wire.client import WireClient
from tests import crash_points
from tests.conftest import RunningBroker
from tests.pipeline.connect.worker_command import WorkerCommand, becomes_true
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed

pytestmark = [pytest.mark.kills, pytest.mark.timeout(300)]

STRING = "org.apache.kafka.connect.storage.StringConverter"
PORTION = 300


def numbers(count: int) -> Counter[bytes | None]:
    return Counter(b"%d" % number for number in range(count))


def lines(start: int, end: int) -> str:
    return "".join(f"{number}\n" for number in range(start, end))


def test_a_standalone_worker_goes_on_from_its_file(
    broker_under_test: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = broker_under_test.bootstrap_servers
    topic = TopicFeed(servers).create(partitions=1)

    def topics() -> set[str]:
        with WireClient({"bootstrap.servers": servers}) as client:
            return set(client.metadata(None).topics)

    topics_before = topics()
    incoming, offsets = tmp_path / "in.txt", tmp_path / "connect.offsets"
    worker_file, connector_file = tmp_path / "worker.properties", tmp_path / "reader.json"
    worker_file.write_text(
        f"key.converter={STRING}\nvalue.converter={STRING}\noffset.storage.file.filename={offsets}\n"
        "offset.flush.interval.ms=10000\n"
    )
    config = {"name": "reader", "connector.class": "FileStreamSource", "file": str(incoming), "topic": topic}
    connector_file.write_text(json.dumps(config))

    def produced() -> Counter[bytes | None]:
        return Counter(record.value for record in contents(servers, topic))

    def new_worker() -> WorkerCommand:
        return WorkerCommand(servers, tmp_path / "worker.log", str(worker_file), str(connector_file))

    def position() -> int:
        found = worker.get("/connectors/reader/offsets")["offsets"]
        return int(found[0]["offset"]["position"]) if found else 0

    def all_is_read() -> bool:
        return position() == incoming.stat().st_size

    incoming.write_text(lines(0, PORTION))
    with new_worker() as worker:
        becomes_true(all_is_read, "the first lines are read")
        assert worker.stop() == 0
    assert offsets.exists()
    with incoming.open("a") as file:
        file.write(lines(PORTION, 2 * PORTION))
    with new_worker() as worker:
        assert worker.states("reader")[0] == "RUNNING"
        becomes_true(all_is_read, "the new lines are read")
        assert produced() == numbers(2 * PORTION)

        # Offsets are reset over REST as well; then the file is read from its start.
        worker.put("/connectors/reader/stop")
        becomes_true(lambda: worker.states("reader") == ["STOPPED"], "the connector is stopped")
        worker.delete("/connectors/reader/offsets")
        assert position() == 0
        worker.put("/connectors/reader/resume")
        becomes_true(all_is_read, "all lines are read again")
        assert worker.stop() == 0
    assert produced() == numbers(2 * PORTION) + numbers(2 * PORTION)

    # At least once: killed between the records and the file, the next worker reads the same lines again.
    steps = tmp_path / "steps"
    steps.mkdir()
    monkeypatch.setenv(crash_points.ENVIRONMENT_VARIABLE, str(steps))
    crash_points.arm(steps, "connect.source_after_job")
    with incoming.open("a") as file:
        file.write(lines(2 * PORTION, 3 * PORTION))
    with new_worker() as worker:
        worker.await_crash()
    with new_worker() as worker:
        becomes_true(all_is_read, "the lines of the killed worker are read again")
        assert worker.stop() == 0
    assert produced() == numbers(3 * PORTION) + numbers(3 * PORTION)
    assert {name for name in topics() - topics_before if not name.startswith("__")} == set()
