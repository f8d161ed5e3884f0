"""The coordinators' topics stay small, however many commits and transactions are behind them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from penstock.broker.log_cleaner import LogCleaner
from penstock.broker.node import Node
from penstock.coordinator.offsets import CommittedOffset, Offsets
from penstock.coordinator.records.offset_commit import OFFSET_COMMIT
from penstock.core import limits
from penstock.core.ids import TopicPartition
from penstock.metadata.topics import NewTopic
from penstock.protocol.record_encoding import NewRecord, encode_batch
from tests.unit.broker.nodes import make_topics, must_succeed, node_in
from tests.unit.broker.test_log_cleaner import InlineProcess, until_idle

SETTINGS: Final = {"offsets.topic.num.partitions": "1"}
COMMITS: Final = 60_000
PARTITIONS: Final = 10


def commit_often(node: Node) -> None:
    """Each commit is a batch of its own, as of consumers that commit at intervals."""
    make_topics(node, NewTopic("topic", PARTITIONS, 1))
    node.groups.log.ensure_topic(must_succeed)
    partition = node.topics.partition("__consumer_offsets", 0)
    topic_id = node.topics.topic("topic").topic_id
    now_ms = node.now_ms()
    for number in range(COMMITS):
        commit = CommittedOffset(number // PARTITIONS, -1, "", now_ms, topic_id)
        if number < COMMITS - PARTITIONS:
            commit = CommittedOffset(0, -1, "", now_ms, topic_id)
        record = Offsets().commit("group", TopicPartition("topic", number % PARTITIONS), commit)
        batch, header = encode_batch([NewRecord(record.key, record.value, now_ms)])
        partition.stage_own(batch, header, now_ms)
        if number % 100 == 99:
            partition.write_staged()
    partition.log.flush()


def test_what_a_restart_has_to_read_does_not_grow_with_the_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COORDINATOR_SEGMENT_BYTES_MAX", 256 << 10)

    async def write_and_clean() -> None:
        with node_in(tmp_path, SETTINGS) as node:
            commit_often(node)
            log = node.topics.partition("__consumer_offsets", 0).log
            assert log.size_bytes > 20 * limits.COORDINATOR_SEGMENT_BYTES_MAX
            cleaner = LogCleaner(node, InlineProcess)
            cleaner.take_turn(node.now_ms())
            await until_idle(cleaner)
            cleaner.stop()
            assert log.size_bytes < 2 * limits.COORDINATOR_SEGMENT_BYTES_MAX

    async def restart() -> None:
        with node_in(tmp_path, SETTINGS) as node:
            records = list(node.groups.log.load(0))
            assert PARTITIONS <= len(records) < COMMITS // 20
            found = {
                OFFSET_COMMIT.read_key(record.key).partition: OFFSET_COMMIT.read_value(record.value or b"").offset
                for record in records
            }
            assert found == dict.fromkeys(range(PARTITIONS), COMMITS // PARTITIONS - 1)

    asyncio.run(write_and_clean())
    asyncio.run(restart())
