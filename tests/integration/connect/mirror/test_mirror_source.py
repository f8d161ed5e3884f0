"""MirrorSourceConnector between two brokers: what it copies, where it goes on, what the target's topics are like."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import Producer

from penstock.client.admin import Admin
from penstock.connect.connector import ConnectError
from penstock.connect.connectors.mirror.records import OffsetSync
from tests.integration.connect.mirror.clusters import (
    EXACTLY_ONCE,
    Mirror,
    await_records,
    contents,
    create,
    eventually,
    produce,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid4().hex[:8]}"


@pytest.mark.parametrize("worker", [{}, EXACTLY_ONCE], ids=["at least once", "exactly once"])
def test_records_are_copied_as_they_are_and_a_start_goes_on_behind_the_last(
    source: str, target: str, topic: str, worker: dict[str, str]
) -> None:
    create(source, topic, 3)
    produce(source, topic, 200, partitions=3)
    mirror = Mirror(source, target, worker)
    with mirror.running("Source", topics=topic):
        await_records(target, f"a.{topic}", 200)
    assert sorted(mirror.offsets("Source"), key=str) == [
        ({"cluster": "a", "partition": 0, "topic": topic}, {"offset": 66}),
        ({"cluster": "a", "partition": 1, "topic": topic}, {"offset": 66}),
        ({"cluster": "a", "partition": 2, "topic": topic}, {"offset": 65}),
    ]
    produce(source, topic, 100, first=200, partitions=3)
    with mirror.running("Source", topics=topic):
        copied = await_records(target, f"a.{topic}", 300)
        produce(source, topic, 10, first=300, partitions=3)
        copied = await_records(target, f"a.{topic}", 310)
    assert [each.content for each in copied] == [each.content for each in contents(source, topic)]


def test_offset_syncs_say_where_records_are(source: str, target: str, topic: str) -> None:
    create(source, topic, 2)
    produce(source, topic, 500, partitions=2)
    with Mirror(source, target, EXACTLY_ONCE).running("Source", topics=topic, offset_lag_max="20"):
        copied = await_records(target, f"a.{topic}", 500)
        eventually("no syncs", lambda: len(syncs_of(source, topic)) >= 26)
    places = {(each.partition, each.content): each.offset for each in contents(source, topic)}
    expected = {(each.partition, places[each.partition, each.content]): each.offset for each in copied}
    syncs = syncs_of(source, topic)
    assert all(expected[each.partition.partition, each.upstream_offset] == each.downstream_offset for each in syncs)
    of_first = [each.upstream_offset for each in syncs if each.partition.partition == 0]
    assert (of_first[0], of_first[-1]) == (0, 249)


def syncs_of(servers: str, topic: str) -> list[OffsetSync]:
    records = contents(servers, "mm2-offset-syncs.b.internal")
    syncs = [OffsetSync.decode(each.key or b"", each.value or b"") for each in records]
    return [each for each in syncs if each.partition.topic == topic]


def test_a_transaction_of_the_source_is_copied_when_it_is_committed(source: str, target: str, topic: str) -> None:
    create(source, topic)
    produce(source, topic, 5, transactional_id=topic)
    aborting = Producer({"bootstrap.servers": source, "transactional.id": topic})
    aborting.init_transactions()
    aborting.begin_transaction()
    aborting.produce(topic, b"never")
    aborting.flush()
    mirror = Mirror(source, target, EXACTLY_ONCE)
    committed = {"source.consumer.isolation.level": "read_committed"}
    with mirror.running("Source", committed, topics=topic):
        await_records(target, f"a.{topic}", 5)
        aborting.abort_transaction()
        # Behind the marker, so that nothing is read again and again.
        eventually("the marker is not passed", lambda: mirror.offsets("Source")[0][1] == {"offset": 7})
        produce(source, topic, 1, first=9)
        copied = await_records(target, f"a.{topic}", 6)
    assert [each.content for each in copied] == [each.content for each in contents(source, topic)]
    assert mirror.offsets("Source")[0][1] == {"offset": 8}


def test_topics_of_the_target_are_like_their_sources(source: str, target: str, topic: str) -> None:
    create(source, topic, 2, retention_ms="1234567", min_insync_replicas="1")
    admin, remote = Admin({"bootstrap.servers": source}), Admin({"bootstrap.servers": target})
    with Mirror(source, target).running("Source", topics=f"{topic}.*"):
        eventually("not created", lambda: f"a.{topic}" in remote.list_topics())
        found = remote.describe_topic(f"a.{topic}")
        assert (len(found.partitions), found.overrides) == (2, {"retention.ms": "1234567"})
        # While it runs: settings, partitions and topics.
        admin.alter_topic_config(topic, changes={"max.message.bytes": "2000000"}, removals=["retention.ms"])
        admin.set_partition_count(topic, 3)
        create(source, f"{topic}-2")
        produce(source, topic, 3, partitions=3)
        produce(source, f"{topic}-2", 1)
        await_records(target, f"a.{topic}", 3)
        await_records(target, f"a.{topic}-2", 1)
        eventually(
            "settings differ",
            lambda: remote.describe_topic(f"a.{topic}").overrides == {"max.message.bytes": "2000000"},
        )
    assert len(remote.describe_topic(f"a.{topic}").partitions) == 3


def test_two_mirrors_face_to_face_do_not_send_records_in_a_circle(source: str, target: str, topic: str) -> None:
    create(source, topic)
    create(target, topic)
    produce(source, topic, 3)
    produce(target, topic, 2)
    there, back = Mirror(source, target), Mirror(target, source)
    chosen = f"(.*\\.)?{topic}"
    with (
        there.running("Source", topics=chosen),
        back.running("Source", topics=chosen, source_cluster_alias="b", target_cluster_alias="a"),
    ):
        await_records(target, f"a.{topic}", 3)
        await_records(source, f"b.{topic}", 2)
        produce(source, topic, 1)
        await_records(target, f"a.{topic}", 4)
    names = [name for name in Admin({"bootstrap.servers": target}).list_topics() if topic in name]
    assert names == [f"a.{topic}", topic]


def test_names_stay_under_the_identity_policy(source: str, target: str, topic: str) -> None:
    create(source, topic)
    produce(source, topic, 3)
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    with Mirror(source, target).running("Source", topics=topic, replication_policy_class=policy):
        await_records(target, topic, 3)


def test_a_mirror_to_another_cluster_than_the_workers(source: str, target: str, topic: str) -> None:
    """The worker stands next to the source."""
    create(source, topic)
    produce(source, topic, 3)
    mirror = Mirror(source, target, {"bootstrap.servers": source, **EXACTLY_ONCE})
    with mirror.running("Source", topics=topic, target_cluster_bootstrap_servers=target):
        await_records(target, f"a.{topic}", 3)
    assert f"a.{topic}" not in Admin({"bootstrap.servers": source}).list_topics()
    offsets = mirror.offsets("Source", {"target.cluster.bootstrap.servers": target})
    assert offsets == [({"cluster": "a", "partition": 0, "topic": topic}, {"offset": 2})]


def test_latest_begins_at_the_end_and_misses_nothing_afterwards(source: str, target: str, topic: str) -> None:
    create(source, topic)
    produce(source, topic, 3)
    latest = {"consumer.auto.offset.reset": "latest"}
    with Mirror(source, target).running("Source", latest, topics=f"{topic}.*"):
        eventually("not created", lambda: f"a.{topic}" in Admin({"bootstrap.servers": target}).list_topics())
        produce(source, topic, 2, first=3)
        (first, _second) = await_records(target, f"a.{topic}", 2)
        create(source, f"{topic}-2")
        produce(source, f"{topic}-2", 4)
        await_records(target, f"a.{topic}-2", 4)
    assert first.timestamp == 1_600_000_000_003


def test_too_few_brokers_are_named_with_the_property(source: str, target: str, topic: str) -> None:
    create(source, topic)
    with (
        pytest.raises(ConnectError, match=r"set replication\.factor to the number of brokers"),
        Mirror(source, target).running("Source", topics=topic, replication_factor="2"),
    ):
        eventually("it does not fail", lambda: False)


def test_a_topic_that_was_created_again_is_copied_from_its_beginning(source: str, target: str, topic: str) -> None:
    create(source, topic)
    produce(source, topic, 20)
    mirror = Mirror(source, target, EXACTLY_ONCE)
    with mirror.running("Source", topics=topic):
        await_records(target, f"a.{topic}", 20)
    admin = Admin({"bootstrap.servers": source})
    admin.delete_topic(topic)
    eventually("not deleted", lambda: topic not in admin.list_topics())
    create(source, topic)
    produce(source, topic, 3, first=20)
    with mirror.running("Source", topics=topic):
        copied = await_records(target, f"a.{topic}", 23)
    assert [each.timestamp - 1_600_000_000_000 for each in copied] == list(range(23))
    assert mirror.offsets("Source")[0][1] == {"offset": 2}
    stopping = {"consumer.auto.offset.reset": "none"}
    admin.delete_topic(topic)
    eventually("not deleted", lambda: topic not in admin.list_topics())
    create(source, topic)
    with pytest.raises(ConnectError, match="has offsets 0 to 0"), mirror.running("Source", stopping, topics=topic):
        eventually("it does not fail", lambda: False)
