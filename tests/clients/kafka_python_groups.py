"""kafka-python's consumers in groups and its transactional producer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.clients.group_interface import (
    ASSIGNED,
    AUTO_COMMIT_INTERVAL_MS,
    HEARTBEAT_INTERVAL_MS,
    LOST,
    REVOKED,
    SESSION_TIMEOUT_MS,
    GroupMember,
    Membership,
    Received,
    TransactionalProducer,
)
from tests.clients.interface import REQUEST_TIMEOUT_S, RefusedError
from tests.clients.polling_member import POLL_TIMEOUT_S, PollingMember
from tests.clients.records import Record

_ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember(PollingMember):
    consumer: Any

    def __init__(self, bootstrap_servers: str, membership: Membership) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._membership = membership
        super().__init__()

    def _open(self) -> None:
        wanted = self._membership.assignor
        assignor = {} if wanted is None else {"partition_assignment_strategy": [_ASSIGNORS[wanted]]}
        self.consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap_servers,
            group_id=self._membership.group,
            group_instance_id=self._membership.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=self._membership.auto_commit,
            auto_commit_interval_ms=AUTO_COMMIT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            **assignor,
        )
        self.consumer.subscribe([self._membership.topic], listener=_Listener(self))
        # A leader that does not know the topic's partitions yet assigns none, and kafka-python does not always recover
        # from that (seen on Apache Kafka, on a busy machine). Asking for them first is what its users can do.
        self.consumer.partitions_for_topic(self._membership.topic)

    def _poll(self) -> Iterable[Received]:
        for records in self.consumer.poll(timeout_ms=int(POLL_TIMEOUT_S * 1000)).values():
            for record in records:
                yield Received(record.partition, record.offset, record.value)

    def to_commit(self, offsets: dict[int, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        topic = self._membership.topic
        return {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()
        }

    def _commit(self, offsets: dict[int, int]) -> None:
        with refusals():
            self.consumer.commit(self.to_commit(offsets))

    def _leave(self) -> None:
        self.consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member._rebalanced(ASSIGNED, assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._member._rebalanced(REVOKED, revoked)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._member._rebalanced(LOST, lost)


class KafkaPythonTransactionalProducer(TransactionalProducer):
    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=transactional_id)
        self._initialised = False

    def begin(self) -> None:
        with refusals():
            if not self._initialised:
                self._producer.init_transactions()
                self._initialised = True
            self._producer.begin_transaction()

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        sent = [
            self._producer.send(topic, value=record.value, key=record.key, partition=partition) for record in records
        ]
        self._producer.flush(REQUEST_TIMEOUT_S)
        with refusals():
            for each in sent:
                each.get(REQUEST_TIMEOUT_S)

    def send_offsets(self, member: GroupMember) -> None:
        assert isinstance(member, KafkaPythonMember)
        offsets = member.to_commit(member.state().next_offsets())
        with refusals():
            self._producer.send_offsets_to_transaction(offsets, member.in_its_thread(member.consumer.group_metadata))

    def commit(self) -> None:
        with refusals():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with refusals():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(REQUEST_TIMEOUT_S)


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise RefusedError(error.errno, str(error)) from error
