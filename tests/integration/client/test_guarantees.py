"""The three guarantees when the process is killed at the critical points: between effect and commit.

Every run of the worker except the last blocks at a chosen point and is killed there with SIGKILL; it reports the point
and the record before. The weaker guarantees must fail for exactly these records; otherwise the test proves nothing.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from penstock import Consumer, Producer, TopicPartition
from tests.integration.client.conftest import NewTopic
from tests.integration.client.guarantee_worker import BATCH_RECORDS, Orders

RECORDS = 240
PARTITIONS = 2
KILLS = 12
LIFE_S_MAX = 60
ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.timeout(240)

Lives = Callable[[str, str, list[str]], list[str]]


@pytest.fixture
def topic(bootstrap_servers: str, new_topic: NewTopic) -> str:
    name = new_topic(partitions=PARTITIONS)
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        for number in range(RECORDS):
            producer.send(name, str(number), partition=number % PARTITIONS)
    return name


@pytest.fixture
def live(bootstrap_servers: str, topic: str, group: str) -> Lives:
    """Runs a worker that is killed at each of the points in turn, and then one to the end.

    Returns the record of every kill.
    """

    def run(style: str, effects: str, points: list[str]) -> list[str]:
        # A batch has up to five records; kills go to each place in it.
        arrivals = random.Random(style)
        killed_at = []
        for point in points:
            at = arrivals.randint(1, 3) if point.endswith("_commit") else arrivals.randint(1, BATCH_RECORDS * 2)
            with life(Orders(bootstrap_servers, topic, group, style, effects, point, at)) as (said, worker):
                assert said[:2] == ["AT", point], said
                assert worker.poll() is None, "it stands where it said when it is killed"
                worker.kill()
                assert worker.wait() == -signal.SIGKILL
            killed_at.append(said[2])
        with life(Orders(bootstrap_servers, topic, group, style, effects, "", 0)) as (said, worker):
            assert said[0] == "DONE", said
            assert worker.wait(LIFE_S_MAX) == 0
        return killed_at

    return run


@contextmanager
def life(orders: Orders) -> Iterator[tuple[list[str], subprocess.Popen[str]]]:
    """A worker, and the words of the line that it says first."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.client.guarantee_worker", json.dumps(asdict(orders))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        try:
            assert worker.stdout is not None
            yield worker.stdout.readline().split(), worker
        finally:
            worker.kill()


EVERY_VALUE = {str(number) for number in range(RECORDS)}


def lines(path: Path) -> Counter[str]:
    return Counter(path.read_text().split())


@pytest.mark.slow
def test_at_most_once_loses_and_never_repeats(live: Lives, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    killed_at = live("at_most_once", str(effects), ["before_effect"] * KILLS)
    counts = lines(effects)
    lost = EVERY_VALUE - set(counts)
    assert set(counts.values()) == {1}
    assert set(killed_at) <= lost, "progress was recorded, the effect was not to be"
    assert len(set(killed_at)) == KILLS
    assert len(lost) <= KILLS * BATCH_RECORDS


@pytest.mark.slow
def test_at_least_once_repeats_and_never_loses(live: Lives, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    killed_at = live("at_least_once", str(effects), ["after_effect"] * KILLS)
    counts = lines(effects)
    repeated = {value for value, count in counts.items() if count > 1}
    assert set(counts) == EVERY_VALUE
    assert set(killed_at) <= repeated, "the effect had been, progress was not to be recorded"
    assert sum(counts.values()) <= RECORDS + KILLS * BATCH_RECORDS


@pytest.mark.parametrize("style", ["sqlite", pytest.param("deduplicated", marks=pytest.mark.slow)])
def test_exactly_once_in_a_database_does_neither(live: Lives, tmp_path: Path, style: str) -> None:
    database = tmp_path / "effects.db"
    connection = sqlite3.connect(database)
    try:
        connection.execute("CREATE TABLE effects (value TEXT)")
        connection.commit()
        points = ["after_effect", "before_commit", "after_commit", "before_effect"] * (KILLS // 4)
        killed_at = live(style, str(database), points)
        counts = Counter(value for (value,) in connection.execute("SELECT value FROM effects"))
    finally:
        connection.close()
    assert len(killed_at) == KILLS
    assert counts == dict.fromkeys(EVERY_VALUE, 1)


@pytest.mark.slow
def test_exactly_once_in_a_kafka_transaction_does_neither(
    live: Lives, bootstrap_servers: str, new_topic: NewTopic
) -> None:
    output = new_topic()
    points = ["after_effect", "before_commit", "after_commit", "after_effect"] * (KILLS // 4)
    killed_at = live("kafka", output, points)
    committed = values_of(bootstrap_servers, output, "read_committed")
    assert len(killed_at) == KILLS
    assert Counter(committed) == dict.fromkeys(EVERY_VALUE, 1)
    written = Counter(values_of(bootstrap_servers, output, "read_uncommitted"))
    torn = {value for value, point in zip(killed_at, points, strict=True) if point != "after_commit"}
    assert all(written[value] > 1 for value in torn), "each was in the log when its transaction was killed"


def values_of(bootstrap_servers: str, topic: str, isolation_level: str) -> list[str]:
    config = {"bootstrap.servers": bootstrap_servers, "isolation.level": isolation_level, "fetch.max.wait.ms": 20}
    values: list[str] = []
    partition = TopicPartition(topic, 0)
    with Consumer(config, value_deserializer="string") as consumer:
        consumer.assign({partition: 0})
        quiet = 0
        # The last offset is a transaction's marker, which no position ever passes.
        while quiet < 5:
            batch = consumer.poll(0.2)
            quiet = 0 if batch else quiet + 1
            values += [record.value for record in batch]
    return values
