"""A shard's groups and offsets as the log has them: every record in its order, and the markers that end transactions.

Records of kinds that this broker does not serve (share groups, streams groups) are passed over.
"""

from __future__ import annotations

from penstock.broker.coordinator_log import LoadedRecord
from penstock.coordinator.classic_messages import GroupSnapshot
from penstock.coordinator.consumer_group_changes import ConsumerGroupChange
from penstock.coordinator.offsets import Offsets
from penstock.coordinator.records.classic_group_records import GROUP_METADATA, read_snapshot
from penstock.coordinator.records.codec import kind_number
from penstock.coordinator.records.consumer_group_records import CONSUMER_GROUP_KINDS, read_change
from penstock.coordinator.records.offset_commit import OFFSET_COMMIT
from penstock.core.errors import ProtocolError
from penstock.protocol.control_records import parse_marker
from penstock.protocol.error_codes import BrokerError, ErrorCode


class LoadedGroups:
    """What the log holds: the last record of every group, and all offsets."""

    def __init__(self) -> None:
        self.offsets = Offsets()
        self.classic: dict[str, GroupSnapshot] = {}
        self.consumer: dict[str, dict[bytes, ConsumerGroupChange]] = {}  # the last of each key, by group
        self.topics: set[tuple[str, bytes]] = set()  # name and id of every topic that an offset was committed for

    def replay(self, record: LoadedRecord) -> None:
        try:
            self._replay(record)
        except ProtocolError as error:
            raise BrokerError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The record at offset {record.offset} cannot be read: {error}"
            ) from error

    def _replay(self, record: LoadedRecord) -> None:
        batch = record.batch
        if batch.is_control:
            marker = parse_marker(record.key, record.value or b"")
            if marker is not None:
                self.offsets.end_transaction(batch.producer_id, committed=marker.committed)
            return
        kind = kind_number(record.key)
        if kind == OFFSET_COMMIT.number:
            value = None if record.value is None else OFFSET_COMMIT.read_value(record.value)
            producer_id = batch.producer_id if batch.is_transactional else None
            key = OFFSET_COMMIT.read_key(record.key)
            self.offsets.replay(key, value, producer_id)
            if value is not None:
                self.topics.add((key.topic, value.topic_id))
        elif kind == GROUP_METADATA.number:
            self._replay_classic(record)
        elif kind in CONSUMER_GROUP_KINDS:
            self._replay_consumer(record)

    def _replay_classic(self, record: LoadedRecord) -> None:
        group_id, snapshot = read_snapshot(record.key, record.value)
        if snapshot is None:
            self.classic.pop(group_id, None)
        else:
            self.classic[group_id] = snapshot

    def _replay_consumer(self, record: LoadedRecord) -> None:
        group_id, change = read_change(record.key, record.value)
        changes = self.consumer.setdefault(group_id, {})
        if change.value is None:
            changes.pop(record.key, None)
        else:
            changes[record.key] = change
        if not changes:
            del self.consumer[group_id]
