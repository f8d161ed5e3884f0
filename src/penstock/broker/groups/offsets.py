"""Requests for committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

The group decides who may commit; `coordinator/offsets.py` holds the offsets. A group without
members comes into being with its first commit, and lives as long as its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.broker.groups.reply import GroupReply
from penstock.broker.groups.shard import GroupShard
from penstock.broker.groups.traits import Group
from penstock.coordinator.classic_group import ClassicGroup
from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.coordinator.offsets import CommittedOffset
from penstock.core.ids import TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_encoding import BatchProducer

if TYPE_CHECKING:
    from penstock.broker.groups.coordinator import GroupCoordinator

Commits = Mapping[TopicPartition, CommittedOffset]

# From this version of OffsetCommit on a client knows the errors of the newer protocol (KIP-848).
_NEW_ERRORS_SINCE: Final = 9


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits: a member of a generation or at an epoch, or a client outside the group's protocol."""

    member_id: str
    instance_id: str | None
    generation_id_or_epoch: int
    api_version: int


class GroupOffsets:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def commit(self, group_id: str, committer: Committer, commits: Commits, reply: GroupReply) -> set[TopicPartition]:
        """Answers when the offsets are in the log. BrokerError: none of them was committed.

        Returns those that were left out, because the member had lost the partition by the epoch that it names.
        """
        shard = self._coordinator.shard(group_id)
        group = shard.groups.get(group_id)
        if group is None and committer.generation_id_or_epoch >= 0:
            is_new = committer.api_version >= _NEW_ERRORS_SINCE
            code = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
            raise BrokerError(code, f"There is no group {group_id!r}.")
        stale = set() if group is None else self._check(group, committer, commits, transactional=False)
        accepted = {partition: offset for partition, offset in commits.items() if partition not in stale}
        # Before memory changes: what the log refuses must cost this client its commit, and not every group its shard.
        self._coordinator.log.check_append(shard.index)
        self._ensure_group(shard, group_id, accepted)
        self._coordinator.metrics.offset_commits.value += len(accepted)
        shard.append([shard.offsets.commit(group_id, partition, offset) for partition, offset in accepted.items()])
        shard.answer(reply, None)
        return stale

    def commit_in_transaction(
        self, group_id: str, committer: Committer, producer: BatchProducer, commits: Commits, reply: GroupReply
    ) -> set[TopicPartition]:
        """As `commit`, and the offsets count once the transaction's marker is written.

        That the producer may write into this partition is the transaction coordinator's to have said before.
        """
        shard = self._coordinator.shard(group_id)
        group = shard.groups.get(group_id)
        if group is None and committer.generation_id_or_epoch >= 0:
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION, f"There is no group {group_id!r}.")
        stale = set() if group is None else self._check(group, committer, commits, transactional=True)
        accepted = {partition: offset for partition, offset in commits.items() if partition not in stale}
        # Before memory changes, as above.
        self._coordinator.log.check_append(shard.index)
        self._coordinator.log.check_producer(shard.index, producer)
        self._ensure_group(shard, group_id, accepted)
        self._coordinator.metrics.offset_commits.value += len(accepted)
        records = [
            shard.offsets.commit_in_transaction(producer.producer_id, group_id, partition, offset)
            for partition, offset in accepted.items()
        ]
        shard.append(records, transaction_of=producer)
        shard.answer(reply, None)
        return stale

    def fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> FetchableOffsets:
        """What the group has committed; a member of the newer protocol must be one of its current epoch."""
        shard = self._coordinator.shard_to_read(group_id)
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.check_offset_fetch(member_id, member_epoch)
        return FetchableOffsets(shard, group_id)

    def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> tuple[GroupShard, set[TopicPartition]]:
        """Forgets these offsets. Those of topics that the group is reading stay, and are returned."""
        shard = self._coordinator.shard_to_read(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group_id!r}.")
        if isinstance(group, ClassicGroup):
            group.check_offset_delete()
        wanted = set(partitions)
        subscribed = {partition for partition in wanted if group.is_subscribed_to(partition.topic)}
        shard.append(shard.offsets.delete(group_id, sorted(wanted - subscribed)))
        return shard, subscribed

    def _check(
        self, group: Group, committer: Committer, commits: Commits, *, transactional: bool
    ) -> set[TopicPartition]:
        if isinstance(group, ClassicGroup):
            group.check_offset_commit(
                committer.member_id,
                committer.instance_id,
                committer.generation_id_or_epoch,
                transactional=transactional,
                now_ms=self._coordinator.now_ms(),
            )
            return set()
        allowed = group.check_offset_commit(
            committer.member_id,
            committer.instance_id,
            committer.generation_id_or_epoch,
            api_version=committer.api_version,
            transactional=transactional,
        )
        if allowed is None:
            return set()
        return {at for at, offset in commits.items() if (offset.topic_id, at.partition) not in allowed}

    def _ensure_group(self, shard: GroupShard, group_id: str, commits: Commits) -> None:
        if commits and group_id not in shard.groups:
            shard.groups[group_id] = self._coordinator.new_classic_group(group_id)


@dataclass(frozen=True, slots=True)
class FetchableOffsets:
    """One group's offsets, for as long as one request looks at them."""

    shard: GroupShard
    group_id: str

    def partitions(self) -> list[TopicPartition]:
        return list(self.shard.offsets.fetch_all(self.group_id))

    def at(self, partition: TopicPartition, *, require_stable: bool) -> CommittedOffset | None:
        """UNSTABLE_OFFSET_COMMIT where an open transaction may change it, and the client wants to wait for that."""
        if require_stable and self.shard.offsets.is_unstable(self.group_id, partition):
            raise BrokerError(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return self.shard.offsets.fetch(self.group_id, partition)
