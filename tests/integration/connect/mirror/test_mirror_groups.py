"""Groups that move: checkpoints, and offsets that are committed for groups without members on the target."""

from __future__ import annotations

import random
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from penstock.client.admin import Admin
from penstock.connect.connectors.mirror.records import Checkpoint, Heartbeat
from penstock.core.ids import TopicPartition
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

LAG = 20


@pytest.mark.parametrize("location", ["source", "target"])
def test_a_group_that_moves_misses_nothing_and_rereads_at_most_what_a_sync_covers(
    source: str, target: str, location: str
) -> None:
    topic, group = f"orders-{uuid4().hex[:8]}", f"readers-{uuid4().hex[:8]}"
    create(source, topic, 2)
    mirror = Mirror(source, target, EXACTLY_ONCE)
    more = {"topics": topic, "offset-syncs.topic.location": location}
    with (
        mirror.running("Source", more, offset_lag_max=str(LAG)),
        mirror.running("Checkpoint", more, groups=group, sync_group_offsets_enabled="true"),
    ):
        # Several transactions, so that the offsets of both clusters drift apart.
        for portion in range(4):
            produce(source, topic, 100, first=100 * portion, partitions=2)
            await_records(target, f"a.{topic}", 100 * (portion + 1))
        upstream, downstream = contents(source, topic), contents(target, f"a.{topic}")
        first = random.Random(location).randint(1, 200)
        positions = {TopicPartition(topic, 0): first, TopicPartition(topic, 1): 200}
        admin, remote = Admin({"bootstrap.servers": source}), Admin({"bootstrap.servers": target})
        admin.set_group_offsets(group, positions, metadata="mine")
        eventually("not committed", lambda: len(remote.group_offsets(group)) == 2)
        moved = TopicPartition(f"a.{topic}", 0)
        unread = [each.content for each in upstream if each.partition == 0 and each.offset >= first]

        def read_on() -> list[tuple[object, ...]]:
            start = remote.group_offsets(group)[moved]
            return [each.content for each in downstream if each.partition == 0 and each.offset >= start]

        # Syncs are written behind their records, so the first offsets may be less exact.
        eventually("too much is read again", lambda: len(read_on()) - len(unread) < LAG)
        assert read_on()[len(read_on()) - len(unread) :] == unread
        # A group that is set forward is followed.
        before = remote.group_offsets(group)
        positions[TopicPartition(topic, 0)] = 200
        admin.set_group_offsets(group, positions)
        ends = {index: 1 + max(each.offset for each in downstream if each.partition == index) for index in (0, 1)}
        # At the end of a slice, the translation is exact.
        eventually(
            f"not moved from {before} to {ends}",
            lambda: remote.group_offsets(group) == {TopicPartition(f"a.{topic}", index): ends[index] for index in ends},
        )
    checkpoints = [
        Checkpoint.decode(each.key or b"", each.value or b"") for each in contents(target, "a.checkpoints.internal")
    ]
    mine = {each.partition: each for each in checkpoints if each.group == group}
    assert mine[moved] == Checkpoint(group, moved, 200, ends[0], "")
    assert ({"group": group, "topic": f"a.{topic}", "partition": 0}, {"offset": 0}) in mirror.offsets("Checkpoint")


def test_a_group_with_members_on_the_target_is_left_alone(source: str, target: str) -> None:
    topic, group, other = (f"{name}-{uuid4().hex[:8]}" for name in ("orders", "readers", "others"))
    create(source, topic)
    produce(source, topic, 10)
    mirror = Mirror(source, target)
    with mirror.running("Source", topics=topic):
        await_records(target, f"a.{topic}", 10)
    remote = Admin({"bootstrap.servers": target})
    member = Consumer({"bootstrap.servers": target, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        member.subscribe([f"a.{topic}"])
        eventually("not joined", lambda: member.poll(0.1) is not None)
        before = remote.group_offsets(group)
        admin = Admin({"bootstrap.servers": source})
        for each in (group, other):
            admin.set_group_offsets(each, {TopicPartition(topic, 0): 10})
        with mirror.running("Checkpoint", groups=f"{group},{other}", topics=topic, sync_group_offsets_enabled="true"):
            eventually("not committed", lambda: bool(remote.group_offsets(other)))
        assert remote.group_offsets(group) == before
    finally:
        member.close()


def test_heartbeats_are_written_and_copied_by_other_mirrors(source: str, target: str) -> None:
    """A heartbeat of the way from `c` to the source's cluster arrives at the target."""
    beating = Mirror(target, source)
    aliases = {"source.cluster.alias": "c", "target.cluster.alias": "a", "emit.heartbeats.interval.seconds": "0"}
    with beating.running("Heartbeat", aliases):
        eventually("no heartbeats", lambda: len(contents(source, "heartbeats")) >= 2)
    with Mirror(source, target).running("Source", topics="none"):
        eventually("not copied", lambda: len(contents(target, "a.heartbeats")) >= 2)
    for each in contents(target, "a.heartbeats"):
        heartbeat = Heartbeat.decode(each.key or b"", each.value or b"")
        assert (heartbeat.source_alias, heartbeat.target_alias) == ("c", "a")
        assert heartbeat.timestamp_ms == each.timestamp
    assert beating.offsets("Heartbeat", aliases) == [
        ({"sourceClusterAlias": "c", "targetClusterAlias": "a"}, {"offset": 0})
    ]
