"""`penstock connect`, as its users run it: REST, real connectors, workers killed with -9."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import RunningBroker
from tests.pipeline.connect.worker_command import WorkerCommand, becomes_true
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed

pytestmark = [pytest.mark.kills, pytest.mark.timeout(900)]

STRING = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
LINES = 20_000


def settings(cluster: str) -> dict[str, str]:
    """Of one Connect cluster. A killed worker's connectors move soon."""
    return {
        "group.id": cluster,
        "config.storage.topic": f"{cluster}-configs",
        "offset.storage.topic": f"{cluster}-offsets",
        "status.storage.topic": f"{cluster}-status",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
    }


def source(file: Path, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, **STRING}


def lines(start: int, end: int) -> str:
    return "".join(f"{number}\n" for number in range(start, end))


def test_lines_come_through_a_topic_once_although_the_worker_is_killed(
    broker_under_test: RunningBroker, tmp_path: Path
) -> None:
    topic = TopicFeed(broker_under_test.bootstrap_servers).create(partitions=2)
    incoming, outgoing = tmp_path / "in.txt", tmp_path / "out.txt"
    incoming.write_text(lines(0, LINES))
    worker_settings = settings(f"once-{topic}")

    def written() -> int:
        return outgoing.read_bytes().count(b"\n") if outgoing.exists() else 0

    def new_worker() -> WorkerCommand:
        return WorkerCommand(broker_under_test.bootstrap_servers, tmp_path / "worker.log", settings=worker_settings)

    with new_worker() as worker:
        worker.create("reader", source(incoming, topic))
        sink = {"connector.class": "FileStreamSink", "file": str(outgoing), "topics": topic, **STRING}
        worker.create("writer", {**sink, "guarantee": "exactly_once"})
        becomes_true(lambda: written() > 0, "the first lines are written")
        with incoming.open("a") as file:
            file.write(lines(LINES, 2 * LINES))
        worker.kill()
    with new_worker() as worker:
        with incoming.open("a") as file:
            file.write(lines(2 * LINES, 3 * LINES))
        becomes_true(lambda: written() >= 3 * LINES, "all lines are written")
        assert worker.states("reader") == worker.states("writer") == ["RUNNING", "RUNNING"]
        assert worker.get("/connectors/reader/offsets")["offsets"][0]["offset"]["position"] == incoming.stat().st_size
        assert worker.stop() == 0
    assert Counter(outgoing.read_text().split()) == Counter(str(number) for number in range(3 * LINES))


def test_three_workers_killed_in_turn_lose_and_repeat_nothing(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    """Thirty source connectors on three workers; each worker is killed once and comes back."""
    topic = TopicFeed(broker_under_test.bootstrap_servers).create(partitions=4)
    worker_settings = settings(f"three-{topic}")
    names = [f"source-{number}" for number in range(30)]
    portions = 0

    def append() -> None:
        nonlocal portions
        for number in range(len(names)):
            with (tmp_path / f"in-{number}.txt").open("a") as file:
                file.writelines(f"{number}/{portions}/{line}\n" for line in range(20))
        portions += 1

    def produced() -> Counter[bytes | None]:
        return Counter(record.value for record in contents(broker_under_test.bootstrap_servers, topic))

    def all_produced() -> bool:
        return len(produced()) == portions * len(names) * 20

    with ExitStack() as stack:

        def new_worker(number: int) -> WorkerCommand:
            log = tmp_path / f"worker-{number}.log"
            return stack.enter_context(
                WorkerCommand(broker_under_test.bootstrap_servers, log, settings=worker_settings)
            )

        workers = [new_worker(number) for number in range(3)]
        append()
        for number, name in enumerate(names):
            workers[number % 3].create(name, source(tmp_path / f"in-{number}.txt", topic))
        becomes_true(all_produced, "the first portion is in the topic")
        owners = {workers[0].get(f"/connectors/{name}/status")["connector"]["worker_id"] for name in names}
        assert len(owners) == 3, "every worker runs some of the connectors"
        for number in range(3):
            append()
            workers[number].kill()
            append()
            becomes_true(all_produced, f"the others have taken over from worker {number}")
            workers[number] = new_worker(number)
        append()
        becomes_true(all_produced, "all portions are in the topic")
    assert set(produced().values()) == {1}
