"""The Spark data source on Apache Kafka and a Spark standalone cluster of a master and two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.testing.apache_kafka import ApacheKafka
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed
from tests.scale.pipeline_process import driver_environment
from tests.scale.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.scale, pytest.mark.timeout(900)]

RUN_S_MAX = 600
RECORDS = 10_000


@pytest.fixture(scope="module")
def kafka_feed(apache_kafka: ApacheKafka) -> TopicFeed:
    return TopicFeed(apache_kafka.bootstrap_servers)


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
