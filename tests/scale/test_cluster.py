"""Apache Kafka and a Spark standalone cluster of a master and two workers: source, sink and a pipeline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.apache_kafka import ApacheKafka
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import AN_HOUR_AGO_MS, Sent, TopicFeed
from tests.scale.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.scale, pytest.mark.timeout(900)]

RUN_S_MAX = 600
RECORDS = 10_000

PIPELINE = """\
name: {name}
guarantee: exactly_once
bootstrap_servers: {servers}
source: {{topic: {source}, schema: "id BIGINT, amount DOUBLE", max_offsets_per_trigger: 1000}}
transform: SELECT id, amount * 2 AS doubled FROM source
sink: {{topic: {sink}, key: id}}
on_error: {{dead_letters: {dead_letters}}}
spark:
  spark.driver.host: 127.0.0.1
  spark.driver.bindAddress: 127.0.0.1
  spark.executor.memory: 512m
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def kafka_feed(apache_kafka: ApacheKafka) -> TopicFeed:
    return TopicFeed(apache_kafka.bootstrap_servers)


def driver_environment() -> dict[str, str]:
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}


def test_a_copy_exactly_once_on_two_workers(cluster: StandaloneCluster, kafka_feed: TopicFeed, tmp_path: Path) -> None:
    source, sink = kafka_feed.create(partitions=4), kafka_feed.create(partitions=3)
    kafka_feed.numbers(source, range(RECORDS), partitions=4)
    orders = {
        "master": cluster.url,
        "bootstrap_servers": kafka_feed.bootstrap_servers,
        "source": source,
        "sink": sink,
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.scale.cluster_driver", json.dumps(orders)],
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        env=driver_environment(),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told["places"]) == 2, "tasks have run on one worker only"
    assert told["batches"] == 4
    copied = Counter(record.value for record in contents(kafka_feed.bootstrap_servers, sink))
    assert copied == Counter(b"%d" % number for number in range(RECORDS))


def test_a_pipeline_that_loses_an_executor(cluster: StandaloneCluster, kafka_feed: TopicFeed, tmp_path: Path) -> None:
    """Killed with -9 between the first and the last batch: nothing is lost, nothing comes twice, dead letters too."""
    source, sink = kafka_feed.create(partitions=4), kafka_feed.create(partitions=3)
    dead_letters = kafka_feed.create()
    values = [b'{"id": %d, "amount": 1.5}' % n if n % 100 else b'{"id": %d, "amount"' % n for n in range(RECORDS)]
    kafka_feed.send(source, [Sent(n % 4, None, value, AN_HOUR_AGO_MS + n) for n, value in enumerate(values)])
    file = tmp_path / "doubled.yaml"
    servers = kafka_feed.bootstrap_servers
    file.write_text(
        PIPELINE.format(name=f"doubled-{sink}", servers=servers, source=source, sink=sink, dead_letters=dead_letters)
    )
    program = Path(sys.executable).with_name("penstock")
    command = [str(program), "run", "--once", "--json", "--master", cluster.url]
    with (tmp_path / "run.log").open("wb") as log, (tmp_path / "run.err").open("wb") as errors:
        run = subprocess.Popen(
            [*command, "--checkpoint", str(tmp_path / "checkpoint"), str(file)],
            stdout=log,
            stderr=errors,
            env=driver_environment(),
            cwd=tmp_path,
        )
        try:
            await_some(servers, sink, run)
            seen_at_kill = len(contents(servers, sink))
            os.kill(cluster.executor_pids()[0], signal.SIGKILL)
            exit_code = run.wait(RUN_S_MAX)
        finally:
            run.kill()
            run.wait()
    assert exit_code == 0, (tmp_path / "run.err").read_text()[-4000:]
    assert 0 < seen_at_kill < RECORDS, "the executor was to die in the middle"
    ids = Counter(json.loads(record.value or b"")["id"] for record in contents(servers, sink))
    assert ids == Counter(number for number in range(RECORDS) if number % 100)
    dead = Counter(record.value for record in contents(servers, dead_letters))
    assert dead == Counter(value for number, value in enumerate(values) if not number % 100)


def await_some(servers: str, topic: str, run: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + RUN_S_MAX
    while not contents(servers, topic):
        assert run.poll() is None, "the pipeline ended before it wrote anything"
        assert time.monotonic() < deadline, f"nothing came in {RUN_S_MAX} s"
        time.sleep(0.2)
