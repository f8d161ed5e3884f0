"""What a follower takes over of a leader's log, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.node import Node
from penstock.broker.partition import Partition
from penstock.broker.replication import follower_log
from penstock.broker.replication.follower_log import DivergedLog
from penstock.core.ids import BrokerId, LeaderEpoch, PartitionIndex, TopicName
from penstock.log.partition_log import PartitionLog
from penstock.metadata.changes import PartitionImage, TopicCreated, TopicImage
from penstock.protocol.record_batch import assign
from tests.unit.broker.nodes import commit_changes, node_in
from tests.unit.log.stored_batches import NOW_MS, make_batch, read_all
from tests.unit.metadata.images import registered, topic_id

ONE, TWO = BrokerId(1), BrokerId(2)
FOLLOWED = PartitionImage(PartitionIndex(0), TWO, LeaderEpoch(3), (TWO, ONE), (TWO, ONE))


class Follower:
    def __init__(self, node: Node) -> None:
        self.node = node
        partition = node.topics.topic("topic").partitions[0]
        assert partition is not None
        self.partition: Partition = partition
        self.log: PartitionLog = partition.log
        self.saved_gaps = 0

    def take_over(self, *batches: bytes) -> int:
        return follower_log.take_over(self.partition, memoryview(bytearray(b"".join(batches))), NOW_MS, self._save)

    def _save(self) -> None:
        assert self.log.lifecycle.cleaned_offset > 0, "the next start would not know"
        assert self.log.log_end_offset <= self.log.next_offset
        self.saved_gaps += 1
        self.node.save_gaps()


def with_follower(directory: Path, scenario: Callable[[Follower], None]) -> None:
    async def main() -> None:
        with node_in(directory) as node:
            commit_changes(node, registered(2))
            if "topic" not in node.image.topics:
                commit_changes(node, TopicCreated(TopicImage(TopicName("topic"), topic_id(7), (FOLLOWED,))))
            scenario(Follower(node))

    asyncio.run(main())


def batch(offset: int, count: int = 1, epoch: int = 0) -> bytes:
    content, _ = make_batch(b"payload of %d" % offset, count)
    assign(content, offset, epoch)
    return bytes(content)


def test_batches_are_taken_over_as_they_are_and_a_part_of_one_is_left(tmp_path: Path) -> None:
    def scenario(it: Follower) -> None:
        first, second, third = batch(0, 2), batch(2, 1, 1), batch(3, 1, 1)
        assert it.take_over(first, second, third[:70]) == len(first + second)
        assert read_all(it.log) == [first, second]
        assert it.log.leader_epochs.entries == [(0, 0), (1, 2)]
        assert it.partition.high_watermark == 0
        follower_log.follow(it.partition, 2, 0)
        assert it.partition.high_watermark == 2
        follower_log.follow(it.partition, 9, 1)
        assert (it.partition.high_watermark, it.log.log_start_offset) == (3, 1)

    with_follower(tmp_path, scenario)


@pytest.mark.parametrize("at", [25, 65])
def test_a_damaged_batch_is_refused_and_those_before_it_are_kept(tmp_path: Path, at: int) -> None:
    def scenario(it: Follower) -> None:
        damaged = bytearray(batch(1))
        damaged[at] ^= 1
        with pytest.raises(DivergedLog, match="batch at offset 1 is damaged"):
            it.take_over(batch(0), bytes(damaged))
        assert it.log.log_end_offset == 1

    with_follower(tmp_path, scenario)


@pytest.mark.parametrize("length", [-1, 0, 10])
def test_an_impossible_length_is_refused(tmp_path: Path, length: int) -> None:
    def scenario(it: Follower) -> None:
        damaged = bytearray(batch(0))
        damaged[8:12] = length.to_bytes(4, "big", signed=True)
        with pytest.raises(DivergedLog, match="damaged"):
            it.take_over(bytes(damaged))
        assert it.log.log_end_offset == 0

    with_follower(tmp_path, scenario)


def test_what_does_not_continue_the_log_is_refused(tmp_path: Path) -> None:
    def scenario(it: Follower) -> None:
        it.take_over(batch(0, 3, epoch=2))
        for wrong in (batch(2, 1, epoch=2), batch(3, 1, epoch=1)):
            with pytest.raises(DivergedLog, match="does not continue"):
                it.take_over(wrong)
        assert it.log.log_end_offset == 3

    with_follower(tmp_path, scenario)


def test_gaps_of_compaction_are_no_damage_after_a_crash(tmp_path: Path) -> None:
    gapped = [batch(0), batch(5), batch(9, 2)]

    def scenario(it: Follower) -> None:
        it.take_over(*gapped)
        assert it.saved_gaps == 1

    def after(it: Follower) -> None:
        assert read_all(it.log) == gapped
        assert it.log.log_end_offset == 11
        it.take_over(batch(20))
        assert it.saved_gaps == 0

    with_follower(tmp_path, scenario)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with_follower(tmp_path, after)


class TestTruncation:
    """The follower's log: epoch 0 at 0, epoch 2 at 4, epoch 3 at 6; it ends at 8."""

    def truncated(self, directory: Path, *answers: tuple[int, int]) -> tuple[int, list[tuple[int, int]]]:
        result = []

        def scenario(it: Follower) -> None:
            it.take_over(*(batch(offset, 1, epoch) for offset, epoch in enumerate((0, 0, 0, 0, 2, 2, 3, 3))))
            follower_log.follow(it.partition, 8, 0)
            for epoch, end_offset in answers:
                follower_log.truncate(it.partition, epoch, end_offset)
            assert it.partition.high_watermark == it.log.log_end_offset
            result.append((it.log.log_end_offset, it.log.leader_epochs.entries))

        with_follower(directory, scenario)
        return result[0]

    def test_where_the_leaders_epoch_ended_earlier(self, tmp_path: Path) -> None:
        assert self.truncated(tmp_path, (3, 7)) == (7, [(0, 0), (2, 4), (3, 6)])

    def test_where_the_leader_lacks_the_newest_epoch(self, tmp_path: Path) -> None:
        assert self.truncated(tmp_path, (2, 9)) == (6, [(0, 0), (2, 4)])

    def test_an_epoch_that_is_unknown_here_is_compared_by_the_one_before_it(self, tmp_path: Path) -> None:
        assert self.truncated(tmp_path, (1, 3)) == (4, [(0, 0)])
        # The next fetch is from 4 in epoch 0, which ended at 2 there.
        assert self.truncated(tmp_path / "again", (1, 3), (0, 2)) == (2, [(0, 0)])

    def test_an_epoch_before_all_known_ones(self, tmp_path: Path) -> None:
        def scenario(it: Follower) -> None:
            it.take_over(batch(0, 1, 5), batch(1, 1, 6))
            follower_log.truncate(it.partition, 4, 10)
            assert (it.log.log_end_offset, it.log.leader_epochs.entries) == (0, [])

        with_follower(tmp_path, scenario)

    def test_an_epoch_without_batches_does_not_stay(self, tmp_path: Path) -> None:
        """Otherwise every fetch would be answered with the same divergence."""

        def scenario(it: Follower) -> None:
            it.take_over(batch(0, 3, 0))
            it.log.begin_epoch(5)
            assert it.log.leader_epochs.latest == 5
            follower_log.truncate(it.partition, 0, 7)
            assert (it.log.log_end_offset, it.log.leader_epochs.latest) == (3, 0)

        with_follower(tmp_path, scenario)


def test_a_log_that_the_leader_has_deleted_starts_again(tmp_path: Path) -> None:
    def scenario(it: Follower) -> None:
        it.take_over(batch(0, 3, 1))
        follower_log.follow(it.partition, 3, 0)
        follower_log.restart(it.partition, 50)
        assert (it.log.log_start_offset, it.log.log_end_offset, it.partition.high_watermark) == (50, 50, 50)
        assert it.log.leader_epochs.entries == []
        it.take_over(batch(50, 1, 4))
        assert read_all(it.log) == [batch(50, 1, 4)]

    with_follower(tmp_path, scenario)


def test_a_replica_that_leads_begins_its_epoch_in_its_log(tmp_path: Path) -> None:
    def scenario(it: Follower) -> None:
        it.take_over(batch(0, 3, 1))
        led = replace(FOLLOWED, leader=ONE, leader_epoch=LeaderEpoch(4))
        it.partition.change(led, ONE, 0)
        assert it.log.leader_epochs.entries == [(1, 0), (4, 3)]
        assert it.partition.leader is not None
        assert it.partition.leader.start_offset == 3
        assert not it.partition.leader.may_answer_end_offset

    with_follower(tmp_path, scenario)
