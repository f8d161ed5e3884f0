"""MirrorMaker 2's own client library reads what the mirror connectors have written."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from penstock.testing.java import JavaMissingError
from penstock.wire.client import OffsetAndMetadata, TopicPartition, WireClient
from tests.conftest import optional_part_missing
from tests.connect_differential.mirror.mirror_maker import ask
from tests.integration.connect.mirror.clusters import Mirror, await_records, contents, create, eventually, produce

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]


def test_its_client_translates_offsets_and_finds_the_clusters_upstream(
    source: str, target: str, tmp_path: Path
) -> None:
    topic, group = f"orders-{uuid4().hex[:8]}", f"readers-{uuid4().hex[:8]}"
    create(source, topic, 2)
    produce(source, topic, 10, partitions=2)
    mirror = Mirror(source, target)
    with WireClient({"bootstrap.servers": source}) as client:
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(5, "!"), TopicPartition(topic, 1): OffsetAndMetadata(0)}
        client.offset_commit(group, offsets)
    aliases = {"source.cluster.alias": "z", "target.cluster.alias": "a"}
    with Mirror(target, source).running("Heartbeat", aliases), mirror.running("Source", topics=topic):
        await_records(target, f"a.{topic}", 10)
        eventually("no heartbeats", lambda: len(contents(target, "a.heartbeats")) > 0)
    with mirror.running("Checkpoint", topics=topic, groups=group):
        eventually("no checkpoints", lambda: len(contents(target, "a.checkpoints.internal")) >= 2)
    try:
        translated, upstream = ask([("translate", target, "a", group), ("upstream clusters", target)], tmp_path)
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    assert translated == [f"a.{topic}-0=5!", f"a.{topic}-1=0"]
    assert upstream == ["a"]
