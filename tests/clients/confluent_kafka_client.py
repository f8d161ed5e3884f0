"""confluent-kafka, the Python face of librdkafka. Also the reference that checks the other clients."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.confluent_kafka_groups import ConfluentMember, ConfluentTransactionalProducer
from tests.clients.group_interface import GroupDescription, Membership, partitions_of, state_name
from tests.clients.interface import (
    CONSUME_TIMEOUT_S,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    REQUEST_TIMEOUT_S,
    KafkaClient,
    RefusedError,
)
from tests.clients.records import Record, StoredRecord


class ConfluentKafkaClient(KafkaClient):
    name = "confluent-kafka"
    has_none: ClassVar[Mapping[str, str]] = {
        "describe log dirs": "no call for DescribeLogDirs",
        "list transactions": "no call for ListTransactions",
        "describe transaction": "no call for DescribeTransactions",
    }

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    @property
    def version(self) -> str:
        return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"

    def close(self) -> None:
        self._admin.poll(0)

    def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        compression: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "compression.type": compression,
                "acks": acks,
                "enable.idempotence": idempotent,
                # librdkafka counts a record's overhead too, and its default leaves no room for it beside 1 MB.
                "message.max.bytes": 1_100_000,
            }
        )
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                errors.append(error)

        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=partition,
                headers=list(record.headers),
                timestamp=record.timestamp_ms or 0,
                on_delivery=delivered,
            )
        unsent = producer.flush(REQUEST_TIMEOUT_S)
        assert unsent == 0, f"{unsent} records were never acknowledged"
        if errors:
            raise RefusedError(errors[0].code(), str(errors[0]))

    def consume(
        self,
        topic: str,
        partition: int,
        count: int,
        *,
        offset: int = 0,
        isolation: str = READ_COMMITTED,
        timeout_s: float = CONSUME_TIMEOUT_S,
    ) -> list[StoredRecord]:
        # The binding insists on a group id; an assigned consumer that commits nothing never joins the group.
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "never-joined",
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )
        records: list[StoredRecord] = []
        deadline = time.monotonic() + timeout_s
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            while len(records) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(records), timeout=0.2):
                    if (error := message.error()) is not None:
                        raise RefusedError(error.code(), str(error))
                    records.append(_stored(message))
        finally:
            consumer.close()
        return records

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        _wait(self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config))]))

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics)

    def partition_count(self, topic: str) -> int:
        described = self._admin.describe_topics(TopicCollection([topic]))
        return len(_wait(described).partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        _wait(self._admin.create_partitions([NewPartitions(topic, total)]))

    def describe_config(self, topic: str) -> dict[str, str | None]:
        entries = _wait(self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: entry.value for name, entry in entries.items()}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config={name: value})
        with warnings.catch_warnings():
            # Deprecated for its users, and yet a call that they have and that a broker must answer.
            warnings.simplefilter("ignore", DeprecationWarning)
            altered = self._admin.alter_configs([resource])
        _wait(altered)

    def alter_config_incrementally(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        _wait(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        _wait(self._admin.delete_records([TopicPartition(topic, partition, before_offset)]))

    def delete_topic(self, topic: str) -> None:
        _wait(self._admin.delete_topics([topic]))

    def broker_ports(self) -> list[int]:
        cluster = self._admin.describe_cluster().result(REQUEST_TIMEOUT_S)
        return [node.port for node in cluster.nodes]

    def log_bytes(self, topic: str, partition: int) -> int:
        raise NotImplementedError

    def list_offset(self, topic: str, partition: int, at: int) -> int | None:
        spec = _special_offsets().get(at) or OffsetSpec.for_timestamp(at)
        offset: int = _wait(self._admin.list_offsets({TopicPartition(topic, partition): spec})).offset
        return None if offset < 0 else offset

    def join(self, membership: Membership) -> ConfluentMember:
        return ConfluentMember(self._bootstrap_servers, membership)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = _wait(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return partitions_of(topic, {(each.topic, each.partition): each.offset for each in found.topic_partitions})

    def alter_committed(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        altered = _wait(self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
        for each in altered.topic_partitions:
            if each.error is not None:
                raise RefusedError(each.error.code(), str(each.error))

    def list_groups(self) -> set[str]:
        listed = self._admin.list_consumer_groups().result(REQUEST_TIMEOUT_S)
        assert not listed.errors
        return {group.group_id for group in listed.valid}

    def describe_group(self, group: str) -> GroupDescription:
        described = _wait(self._admin.describe_consumer_groups([group]))
        assignments = [{each.partition for each in member.assignment.topic_partitions} for member in described.members]
        return GroupDescription(state_name(described.state), assignments)

    def delete_group(self, group: str) -> None:
        _wait(self._admin.delete_consumer_groups([group]))

    def transactional_producer(self, transactional_id: str) -> ConfluentTransactionalProducer:
        return ConfluentTransactionalProducer(self._bootstrap_servers, transactional_id)


def _special_offsets() -> dict[int, OffsetSpec]:
    specs: Any = OffsetSpec  # its methods carry no types
    return {EARLIEST: specs.earliest(), LATEST: specs.latest(), MAX_TIMESTAMP: specs.max_timestamp()}


def _wait(futures: Mapping[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    try:
        return future.result(REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise RefusedError(error.args[0].code(), str(error)) from error


def _stored(message: Message) -> StoredRecord:
    headers: Any = message.headers() or []
    offset = message.offset()
    assert offset is not None
    return StoredRecord(offset, message.timestamp()[1], message.key(), message.value(), tuple(headers))
