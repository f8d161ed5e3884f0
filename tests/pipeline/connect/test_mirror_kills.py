"""A mirror killed with -9 at every step of its commit, on Spark: each record is copied once and in order."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.conftest import RunningBroker
from tests.pipeline.connect.test_kills import EXACTLY_ONCE, SOURCE_STEPS, Numbers, run
from tests.pipeline.connect.worker_process import Work
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed

pytestmark = [pytest.mark.kills, pytest.mark.timeout(1200)]


def test_a_mirror_is_exactly_once_under_a_kill_at_every_step(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    with Broker() as source:
        feed = TopicFeed(source.bootstrap_servers)
        topic = feed.create(partitions=2)
        config = {
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": uuid.uuid4().hex[:8],
            "target.cluster.alias": "here",
            "source.cluster.bootstrap.servers": source.bootstrap_servers,
            "source.consumer.isolation.level": "read_committed",
            "topics": topic,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "tasks.max": "2",
        }
        work = Work(broker_under_test.bootstrap_servers, f"mirror-{topic}", config, EXACTLY_ONCE)
        numbers = Numbers()
        for step in SOURCE_STEPS:
            feed.numbers(topic, numbers.portion(), partitions=2)
            run(work, tmp_path, kill_at=step)
        run(work, tmp_path, kill_at=None)
        expected = contents(source.bootstrap_servers, topic)
    found = contents(broker_under_test.bootstrap_servers, f"{config['source.cluster.alias']}.{topic}")
    assert len(expected) == numbers.expected.total()
    for partition in (0, 1):
        copied = [record for record in found if record.partition == partition]
        assert copied == [record for record in expected if record.partition == partition]
