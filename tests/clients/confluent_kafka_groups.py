"""confluent-kafka's consumers in groups and its transactional producer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.group_interface import (
    ASSIGNED,
    AUTO_COMMIT_INTERVAL_MS,
    FENCED,
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


class ConfluentMember(PollingMember):
    consumer: Consumer

    def __init__(self, bootstrap_servers: str, membership: Membership) -> None:
        self._membership = membership
        self._config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": membership.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": membership.auto_commit,
            "auto.commit.interval.ms": AUTO_COMMIT_INTERVAL_MS,
        }
        if membership.remote_assignor is not None:
            # The newer protocol takes its timeouts from the broker.
            self._config |= {"group.protocol": "consumer", "group.remote.assignor": membership.remote_assignor}
        else:
            self._config |= {
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            }
        if membership.assignor is not None:
            self._config["partition.assignment.strategy"] = membership.assignor
        if membership.instance_id is not None:
            self._config["group.instance.id"] = membership.instance_id
        super().__init__()

    def _open(self) -> None:
        self.consumer = Consumer(self._config)
        self.consumer.subscribe(
            [self._membership.topic],
            on_assign=lambda _consumer, partitions: self._rebalanced(ASSIGNED, partitions),
            on_revoke=lambda _consumer, partitions: self._rebalanced(REVOKED, partitions),
            on_lost=lambda _consumer, partitions: self._rebalanced(LOST, partitions),
        )

    def _poll(self) -> Iterable[Received]:
        for message in self.consumer.consume(100, timeout=POLL_TIMEOUT_S):
            if (error := message.error()) is not None:
                raise RefusedError(error.code(), str(error))
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            yield Received(partition, offset, message.value())

    def to_commit(self, offsets: dict[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._membership.topic, partition, offset) for partition, offset in offsets.items()]

    def _commit(self, offsets: dict[int, int]) -> None:
        committed = self.consumer.commit(offsets=self.to_commit(offsets), asynchronous=False)
        for each in committed or []:
            if each.error is not None:
                raise RefusedError(each.error.code(), str(each.error))

    def _leave(self) -> None:
        self.consumer.close()


class ConfluentTransactionalProducer(TransactionalProducer):
    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, "linger.ms": 0}
        )
        self._initialised = False
        self._in_transaction = False

    def begin(self) -> None:
        with _refusals():
            if not self._initialised:
                self._producer.init_transactions(REQUEST_TIMEOUT_S)
                self._initialised = True
            self._producer.begin_transaction()
            self._in_transaction = True

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                errors.append(error)

        for record in records:
            self._producer.produce(topic, record.value, record.key, partition, on_delivery=delivered)
        assert self._producer.flush(REQUEST_TIMEOUT_S) == 0
        if errors:
            raise RefusedError(errors[0].code(), str(errors[0]))

    def send_offsets(self, member: GroupMember) -> None:
        assert isinstance(member, ConfluentMember)
        offsets = member.to_commit(member.state().next_offsets())
        metadata = member.in_its_thread(member.consumer.consumer_group_metadata)
        with _refusals():
            self._producer.send_offsets_to_transaction(offsets, metadata, REQUEST_TIMEOUT_S)

    def commit(self) -> None:
        with _refusals():
            self._producer.commit_transaction(REQUEST_TIMEOUT_S)
            self._in_transaction = False

    def abort(self) -> None:
        with _refusals():
            self._producer.abort_transaction(REQUEST_TIMEOUT_S)
            self._in_transaction = False

    def close(self) -> None:
        """Not by `Producer.close`, which aborts without a limit of time and cannot be interrupted."""
        try:
            if self._in_transaction:
                self._producer.abort_transaction(REQUEST_TIMEOUT_S)
            self._producer.purge()
            self._producer.flush(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            # A fenced producer says so once more.
            if error.args[0].code() not in FENCED:
                raise


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise RefusedError(error.args[0].code(), str(error)) from error
