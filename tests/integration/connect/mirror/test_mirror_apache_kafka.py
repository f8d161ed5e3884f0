"""Mirrors between Penstock and Apache Kafka, each as source and as target: records, topics, a group that moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from penstock.client.admin import Admin
from penstock.testing import Broker
from penstock.testing.apache_kafka import ApacheKafka
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.integration.connect.mirror.clusters import (
    EXACTLY_ONCE,
    Mirror,
    await_records,
    contents,
    create,
    eventually,
    produce,
)
from tests.integration.connect.workers import BROKER_CONFIG

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]

LAG = 20
TOTAL = 330


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, str]]:
    alone = {f"{topic}.replication.factor": "1" for topic in ("offsets.topic", "transaction.state.log")}
    try:
        kafka = ApacheKafka(
            config={**BROKER_CONFIG, **alone, "transaction.state.log.min.isr": "1"}, heap="512M", start_timeout_s=300
        )
        kafka.start()
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    with Broker(config=BROKER_CONFIG) as broker:
        yield {"apache": kafka.bootstrap_servers, "penstock": broker.bootstrap_servers}
    kafka.__exit__(None, None, None)


def read(servers: str, topic: str, group: str, is_enough: Callable[[Counter[int]], bool]) -> Counter[int]:
    """A member of the group reads records until it has enough, commits each and leaves. It counts timestamps."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    found: Counter[int] = Counter()
    try:
        consumer.subscribe([topic])

        def have_come() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found[message.timestamp()[1]] += 1
                consumer.commit(message=message, asynchronous=False)
            return is_enough(found)

        eventually("too few records", have_come)
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize(("source_name", "target_name"), [("apache", "penstock"), ("penstock", "apache")])
def test_a_mirror_and_a_group_that_moves(clusters: dict[str, str], source_name: str, target_name: str) -> None:
    source, target = clusters[source_name], clusters[target_name]
    topic, group = f"orders-{uuid4().hex[:8]}", f"readers-{uuid4().hex[:8]}"
    create(source, topic, 2, retention_ms="1234567890123")
    mirror = Mirror(source, target, EXACTLY_ONCE)
    committed = {"source.consumer.isolation.level": "read_committed"}
    with (
        mirror.running("Source", committed, topics=topic, offset_lag_max=str(LAG)),
        mirror.running("Checkpoint", topics=topic, groups=group, sync_group_offsets_enabled="true"),
    ):
        produce(source, topic, 300, partitions=2)
        await_records(target, f"a.{topic}", 300)
        produce(source, topic, TOTAL - 300, first=300, partitions=2, transactional_id=topic)
        copied = await_records(target, f"a.{topic}", TOTAL)
        before = read(source, topic, group, lambda found: found.total() == 137)
        upstream = Admin({"bootstrap.servers": source}).group_offsets(group)
        downstream = Admin({"bootstrap.servers": target})
        eventually("not committed", lambda: len(downstream.group_offsets(group)) == len(upstream))
        eventually(
            "the offsets are too far back",
            lambda: sum(downstream.group_offsets(group).values()) > sum(upstream.values()) - 2 * LAG,
        )
    assert [each.content for each in copied] == [each.content for each in contents(source, topic)]
    found = downstream.describe_topic(f"a.{topic}")
    assert (len(found.partitions), found.overrides) == (2, {"retention.ms": "1234567890123"})
    # The group reads on over there: it misses nothing, and reads little twice.
    rest = read(target, f"a.{topic}", group, lambda found: len(before + found) == TOTAL)
    assert (before + rest).total() - TOTAL < 2 * LAG
