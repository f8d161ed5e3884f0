"""kafka-python: the Kafka protocol in pure Python."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import KafkaError, NoError
from kafka.structs import OffsetAndMetadata

from tests.clients.group_interface import (
    NO_NEWER_PROTOCOL,
    GroupDescription,
    Membership,
    TransactionDescription,
    partitions_of,
    state_name,
)
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
from tests.clients.kafka_python_groups import KafkaPythonMember, KafkaPythonTransactionalProducer, refusals
from tests.clients.records import Record, StoredRecord


class KafkaPythonClient(KafkaClient):
    name = "kafka-python"
    has_none: ClassVar[Mapping[str, str]] = {
        "produce null headers": "it takes only bytes as a header's value",
        **NO_NEWER_PROTOCOL,
    }

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)

    @property
    def version(self) -> str:
        return str(kafka.__version__)

    def close(self) -> None:
        self._admin.close()

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
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap_servers,
            compression_type=None if compression == "none" else compression,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(REQUEST_TIMEOUT_S)
            with refusals():
                for each in sent:
                    each.get(REQUEST_TIMEOUT_S)
        finally:
            producer.close(REQUEST_TIMEOUT_S)

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
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap_servers,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=isolation,
        )
        topic_partition = TopicPartition(topic, partition)
        records: list[StoredRecord] = []
        deadline = time.monotonic() + timeout_s
        try:
            consumer.assign([topic_partition])
            consumer.seek(topic_partition, offset)
            while len(records) < count and time.monotonic() < deadline:
                polled = consumer.poll(timeout_ms=200, max_records=count - len(records))
                records += [
                    StoredRecord(each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
                    for each in polled.get(topic_partition, [])
                ]
        finally:
            consumer.close()
        return records

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config)}
        with refusals():
            self._admin.create_topics({topic: wanted})

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        (described,) = self._admin.describe_topics([topic])
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total})

    def describe_config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        described = self._admin.describe_configs([resource], config_filter="all")
        return {name: entry["value"] for name, entry in described["topic"][topic].items()}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        self._alter(topic, name, value, incremental=False)

    def alter_config_incrementally(self, topic: str, name: str, value: str) -> None:
        self._alter(topic, name, value, incremental=True)

    def _alter(self, topic: str, name: str, value: str, *, incremental: bool) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        self._admin.alter_configs([resource], incremental=incremental)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        self._admin.delete_records({TopicPartition(topic, partition): before_offset})

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def broker_ports(self) -> list[int]:
        return [broker["port"] for broker in self._admin.describe_cluster()["brokers"]]

    def log_bytes(self, topic: str, partition: int) -> int:
        (broker,) = self._admin.describe_log_dirs({topic: [partition]})
        (size,) = [
            described["partition_size"]
            for log_dir in broker["log_dirs"]
            for described_topic in log_dir["topics"]
            for described in described_topic["partitions"]
        ]
        return int(size)

    def list_offset(self, topic: str, partition: int, at: int) -> int | None:
        special = {EARLIEST: OffsetSpec.EARLIEST, LATEST: OffsetSpec.LATEST, MAX_TIMESTAMP: OffsetSpec.MAX_TIMESTAMP}
        topic_partition = TopicPartition(topic, partition)
        found = self._admin.list_partition_offsets({topic_partition: special.get(at, at)})[topic_partition]
        return None if found is None or found.offset < 0 else int(found.offset)

    def join(self, membership: Membership) -> KafkaPythonMember:
        return KafkaPythonMember(self._bootstrap_servers, membership)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = self._admin.list_group_offsets(group)[group]
        return partitions_of(topic, {tuple(partition): committed.offset for partition, committed in found.items()})

    def alter_committed(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {TopicPartition(topic, each): OffsetAndMetadata(offset, "", -1) for each, offset in offsets.items()}
        for error in self._admin.alter_group_offsets(group, wanted).values():
            _refuse(error)

    def list_groups(self) -> set[str]:
        return {group["group_id"] for group in self._admin.list_groups()}

    def describe_group(self, group: str) -> GroupDescription:
        described = self._admin.describe_groups([group])[group]
        assignments = [
            {
                partition
                for topic in member["member_assignment"]["assigned_partitions"]
                for partition in topic["partitions"]
            }
            for member in described["members"]
        ]
        return GroupDescription(state_name(described["group_state"]), assignments)

    def delete_group(self, group: str) -> None:
        outcome = self._admin.delete_groups([group])[group]
        assert outcome == "OK", outcome

    def transactional_producer(self, transactional_id: str) -> KafkaPythonTransactionalProducer:
        return KafkaPythonTransactionalProducer(self._bootstrap_servers, transactional_id)

    def list_transactions(self) -> dict[str, str]:
        listed = self._admin.list_transactions()
        return {each.transactional_id: each.state.value for broker in listed.values() for each in broker}

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        described = self._admin.describe_transactions([transactional_id])[transactional_id]
        return TransactionDescription(described.state.value, {tuple(each) for each in described.topic_partitions})


def _refuse(error: type[KafkaError]) -> None:
    if error is not NoError:
        raise RefusedError(error.errno, error.__name__)
