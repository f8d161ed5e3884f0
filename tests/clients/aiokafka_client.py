"""aiokafka: the asyncio client. Each call here runs its own event loop, as a short script would; what outlives a call,
members of groups and transactional producers, lives in another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import for_code

from tests.clients.aiokafka_groups import AiokafkaMember, AiokafkaTransactionalProducer, EventLoopThread
from tests.clients.group_interface import NO_NEWER_PROTOCOL, GroupDescription, Membership, partitions_of, state_name
from tests.clients.interface import (
    CONSUME_TIMEOUT_S,
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    KafkaClient,
    RefusedError,
)
from tests.clients.records import Record, StoredRecord


class AiokafkaClient(KafkaClient):
    name = "aiokafka"
    has_none: ClassVar[Mapping[str, str]] = {
        "incremental alter configs": "its admin client knows AlterConfigs only",
        "describe log dirs": "no call for DescribeLogDirs",
        "list offsets, max timestamp": "no offset spec for the largest timestamp",
        "group, cooperative-sticky assignor": "its assignors are range, round robin and an eager sticky one",
        **NO_NEWER_PROTOCOL,
        "alter group offsets": "its admin client reads offsets only",
        "delete group": "no call for DeleteGroups",
        "list transactions": "no call for ListTransactions",
        "describe transaction": "no call for DescribeTransactions",
    }

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._event_loop = EventLoopThread()

    @property
    def version(self) -> str:
        return str(aiokafka.__version__)

    def close(self) -> None:
        self._event_loop.close()

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
        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap_servers,
                compression_type=None if compression == "none" else compression,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        partition=partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                await asyncio.gather(*sent)
            finally:
                await producer.stop()

        asyncio.run(run())

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
        async def run() -> list[StoredRecord]:
            topic_partition = TopicPartition(topic, partition)
            records: list[StoredRecord] = []
            async with self._consumer(isolation) as consumer:
                consumer.assign([topic_partition])
                consumer.seek(topic_partition, offset)
                deadline = asyncio.get_running_loop().time() + timeout_s
                while len(records) < count and asyncio.get_running_loop().time() < deadline:
                    polled = await consumer.getmany(timeout_ms=200, max_records=count - len(records))
                    records += [
                        StoredRecord(each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
                        for each in polled.get(topic_partition, [])
                    ]
            return records

        return asyncio.run(run())

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        response = self._administer("create_topics", [NewTopic(topic, partitions, 1, topic_configs=dict(config))])
        _refuse(response.topic_errors[0][1])

    def list_topics(self) -> set[str]:
        return set(self._administer("list_topics"))

    def partition_count(self, topic: str) -> int:
        (described,) = self._administer("describe_topics", [topic])
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._administer("create_partitions", {topic: NewPartitions(total)})

    def describe_config(self, topic: str) -> dict[str, str | None]:
        (response,) = self._administer("describe_configs", [ConfigResource(ConfigResourceType.TOPIC, topic)])
        (resource,) = response.to_object()["resources"]
        _refuse(resource["error_code"])
        return {entry["config_names"]: entry["config_value"] for entry in resource["config_entries"]}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        (response,) = self._administer("alter_configs", [resource])
        _refuse(response.to_object()["resources"][0]["error_code"])

    def alter_config_incrementally(self, topic: str, name: str, value: str) -> None:
        raise NotImplementedError

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        self._administer("delete_records", {TopicPartition(topic, partition): RecordsToDelete(before_offset)})

    def delete_topic(self, topic: str) -> None:
        response = self._administer("delete_topics", [topic])
        _refuse(response.topic_error_codes[0][1])

    def broker_ports(self) -> list[int]:
        return [broker["port"] for broker in self._administer("describe_cluster")["brokers"]]

    def log_bytes(self, topic: str, partition: int) -> int:
        raise NotImplementedError

    def list_offset(self, topic: str, partition: int, at: int) -> int | None:
        async def run() -> int | None:
            topic_partition = TopicPartition(topic, partition)
            async with self._consumer() as consumer:
                if at == EARLIEST:
                    return int((await consumer.beginning_offsets([topic_partition]))[topic_partition])
                if at == LATEST:
                    return int((await consumer.end_offsets([topic_partition]))[topic_partition])
                found = (await consumer.offsets_for_times({topic_partition: at}))[topic_partition]
                return None if found is None else int(found.offset)

        return asyncio.run(run())

    def join(self, membership: Membership) -> AiokafkaMember:
        return AiokafkaMember(self._event_loop, self._bootstrap_servers, membership)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = self._administer("list_consumer_group_offsets", group)
        return partitions_of(topic, {tuple(partition): committed.offset for partition, committed in found.items()})

    def list_groups(self) -> set[str]:
        return {group for group, _protocol_type in self._administer("list_consumer_groups")}

    def describe_group(self, group: str) -> GroupDescription:
        (response,) = self._administer("describe_consumer_groups", [group])
        (described,) = response.to_object()["groups"]
        _refuse(described["error_code"])
        assignments = [_assigned_partitions(member["member_assignment"]) for member in described["members"]]
        return GroupDescription(state_name(described["state"]), assignments)

    def transactional_producer(self, transactional_id: str) -> AiokafkaTransactionalProducer:
        return AiokafkaTransactionalProducer(self._event_loop, self._bootstrap_servers, transactional_id)

    @asynccontextmanager
    async def _consumer(self, isolation: str = READ_UNCOMMITTED) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap_servers,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=isolation,
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    def _administer(self, call: str, *arguments: Any) -> Any:
        async def run() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap_servers)
            await admin.start()
            try:
                return await getattr(admin, call)(*arguments)
            finally:
                await admin.close()

        return asyncio.run(run())


def _assigned_partitions(assignment: bytes) -> set[int]:
    decoded = ConsumerProtocolMemberAssignment.decode(assignment)
    return {partition for _topic, partitions in decoded.assignment for partition in partitions}


def _refuse(code: int) -> None:
    if code:
        raise RefusedError(code, for_code(code).__name__)
