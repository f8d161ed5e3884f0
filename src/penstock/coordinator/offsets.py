"""Committed offsets of the groups of one partition of `__consumer_offsets`.

Owns: the committed offsets of each group, the pending offsets of open transactions, expiration, and the records of all
of these. Must never know: members, requests, clocks. The caller decides who may commit.

Offsets of a transaction are pending until its marker. Then they apply, unless the group has committed the same
partition since: the order in the log decides, and a sequence number per commit records it.

Invariant: replaying the records and markers in log order gives the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.coordinator.records.offset_commit import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from penstock.core.ids import TopicPartition

NO_EXPIRY: Final = -1
NO_TOPIC_ID: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One committed offset. `expire_timestamp_ms` is set only by old clients that send a retention time."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    topic_id: bytes = NO_TOPIC_ID
    expire_timestamp_ms: int = NO_EXPIRY


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """When the retention of a group's offsets begins: at the commit, or when the last member left.

    Offsets of topics that the group subscribes to do not expire.
    """

    empty_since_ms: int | None = None
    is_subscribed: Callable[[str], bool] = lambda topic: False

    def has_expired(self, topic: str, committed: CommittedOffset, now_ms: int, retention_ms: int) -> bool:
        if self.is_subscribed(topic):
            return False
        if committed.expire_timestamp_ms != NO_EXPIRY:
            return now_ms >= committed.expire_timestamp_ms
        since_ms = committed.commit_timestamp_ms if self.empty_since_ms is None else self.empty_since_ms
        return now_ms - since_ms >= retention_ms


class _Commit(NamedTuple):
    sequence: int
    committed: CommittedOffset


_GroupOffsets = dict[TopicPartition, _Commit]
_NOTHING: Final[Mapping[TopicPartition, _Commit]] = MappingProxyType({})


class Offsets:
    """Every method that changes the state returns the records to append, in order."""

    def __init__(self) -> None:
        self._by_group: dict[str, _GroupOffsets] = {}
        self._open: dict[int, dict[str, _GroupOffsets]] = {}  # by producer id, then by group
        self._next_sequence = 0

    # Queries

    def fetch(self, group: str, partition: TopicPartition) -> CommittedOffset | None:
        commit = self._by_group.get(group, _NOTHING).get(partition)
        return None if commit is None else commit.committed

    def fetch_all(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        return {partition: commit.committed for partition, commit in self._by_group.get(group, _NOTHING).items()}

    def is_unstable(self, group: str, partition: TopicPartition) -> bool:
        """Whether an open transaction has a pending offset of the partition (KIP-447)."""
        return any(partition in groups.get(group, _NOTHING) for groups in self._open.values())

    def knows(self, group: str) -> bool:
        """Whether the group has committed or pending offsets."""
        return group in self._by_group or any(group in groups for groups in self._open.values())

    def groups(self) -> set[str]:
        return {*self._by_group, *(group for groups in self._open.values() for group in groups)}

    # Committing

    def commit(self, group: str, partition: TopicPartition, committed: CommittedOffset) -> CoordinatorRecord:
        self._put(self._by_group.setdefault(group, {}), partition, committed)
        return _record(group, partition, committed)

    def commit_in_transaction(
        self, producer_id: int, group: str, partition: TopicPartition, committed: CommittedOffset
    ) -> CoordinatorRecord:
        """The record must be part of a transactional batch of the producer."""
        self._put(self._open.setdefault(producer_id, {}).setdefault(group, {}), partition, committed)
        return _record(group, partition, committed)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The transaction's marker is in the log: its pending offsets are applied or discarded."""
        for group, pending in self._open.pop(producer_id, {}).items():
            if not committed:
                continue
            offsets = self._by_group.setdefault(group, {})
            for partition, commit in pending.items():
                known = offsets.get(partition)
                if known is None or known.sequence < commit.sequence:
                    offsets[partition] = commit

    # Deletion

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> list[CoordinatorRecord]:
        """Deletes the offsets of these partitions, pending ones too; partitions without an offset are skipped."""
        records: list[CoordinatorRecord] = []
        for partition in partitions:
            if self._remove(group, partition):
                records.append(OFFSET_COMMIT.tombstone(_key(group, partition)))
        return records

    def delete_group(self, group: str) -> list[CoordinatorRecord]:
        known = [*self._by_group.get(group, _NOTHING)]
        for groups in self._open.values():
            known.extend(groups.get(group, _NOTHING))
        return self.delete(group, dict.fromkeys(known))

    def delete_where(self, is_gone: Callable[[str, bytes], bool]) -> list[CoordinatorRecord]:
        """Deletes the offsets of deleted topics, identified by name and id."""
        records: list[CoordinatorRecord] = []
        for group in self.groups():
            tables = [self._by_group.get(group, _NOTHING)]
            tables.extend(groups.get(group, _NOTHING) for groups in self._open.values())
            gone = {
                partition: None
                for table in tables
                for partition, commit in table.items()
                if is_gone(partition.topic, commit.committed.topic_id)
            }
            records += self.delete(group, gone)
        return records

    def expire(self, group: str, rule: ExpiryRule, now_ms: int, retention_ms: int) -> list[CoordinatorRecord]:
        """Deletes expired offsets, except those for which a transaction is pending."""
        expired = [
            partition
            for partition, commit in self._by_group.get(group, _NOTHING).items()
            if rule.has_expired(partition.topic, commit.committed, now_ms, retention_ms)
            and not self.is_unstable(group, partition)
        ]
        return self.delete(group, expired)

    # Loading

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int | None) -> None:
        """Applies a record of the log; `producer_id` is that of its transactional batch."""
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._remove(key.group, partition)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.topic_id,
            value.expire_timestamp,
        )
        groups = self._by_group if producer_id is None else self._open.setdefault(producer_id, {})
        self._put(groups.setdefault(key.group, {}), partition, committed)

    def _put(self, table: _GroupOffsets, partition: TopicPartition, committed: CommittedOffset) -> None:
        table[partition] = _Commit(self._next_sequence, committed)
        self._next_sequence += 1

    def _remove(self, group: str, partition: TopicPartition) -> bool:
        """Also removes the group when no offset is left: absent and empty must not differ."""
        found = _remove(self._by_group, group, partition)
        for producer_id in tuple(self._open):
            groups = self._open[producer_id]
            found |= _remove(groups, group, partition)
            if not groups:
                del self._open[producer_id]
        return found


def _remove(groups: dict[str, _GroupOffsets], group: str, partition: TopicPartition) -> bool:
    table = groups.get(group)
    if table is None or table.pop(partition, None) is None:
        return False
    if not table:
        del groups[group]
    return True


def _key(group: str, partition: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group=group, topic=partition.topic, partition=partition.partition)


# Only version 1 of the value has an expiration time, and it has neither leader epoch nor topic id.
_WITH_TOPIC_ID: Final = 4
_WITH_EXPIRY: Final = 1


def _record(group: str, partition: TopicPartition, committed: CommittedOffset) -> CoordinatorRecord:
    version = _WITH_TOPIC_ID if committed.expire_timestamp_ms == NO_EXPIRY else _WITH_EXPIRY
    return OFFSET_COMMIT.record(
        _key(group, partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=committed.topic_id,
        ),
        version,
    )
