"""The exchange on an event loop, against a real broker: what a broker-to-broker channel stands on.

Nothing of `wire/` is used. Requests are pipelined, and responses are taken by another task than the one that sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from penstock.protocol.definitions.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.definitions.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.exchange import Exchange, InFlightRequest, ReceiveBuffer, Step
from penstock.protocol.schema import Message
from penstock.testing import Broker
from tests.record_batches import Record, encode_batch

T = TypeVar("T")
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


class Channel:
    """A channel on asyncio streams: its reader task resolves the futures of the requests that were answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.exchange = Exchange("the broker", "asyncio-test")
        self._reader = reader
        self._writer = writer
        self._waiting: dict[InFlightRequest, asyncio.Future[Any]] = {}

    async def receive(self) -> None:
        while True:
            room = self.exchange.get_buffer()
            data = await self._reader.read(len(room))
            if not data:
                raise ConnectionError("the broker closed the connection")
            room[: len(data)] = data
            answered = self.exchange.advance(len(data))
            if answered is not None:
                self._waiting.pop(answered).set_result(answered.decode())

    def send(self, request: Message, version: int, into: ReceiveBuffer | None = None) -> asyncio.Future[Any]:
        sent, chunks = self.exchange.send(request, version, into=into)
        self._writer.writelines(chunks)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[sent] = future
        return future

    async def ask(self, request: Message, *, at_least: int = 0) -> Any:
        return await self.send(request, self.exchange.version_for(type(request), at_least=at_least))

    async def carry_out(self, steps: Generator[Step, Any, T]) -> T:
        step = next(steps)
        while True:
            response = await self.send(step.request, step.version)
            try:
                step = steps.send(response)
            except StopIteration as end:
                result: T = end.value
                return result


@asynccontextmanager
async def channel_to(broker: Broker) -> AsyncIterator[Channel]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    channel = Channel(reader, writer)
    receiving = asyncio.create_task(channel.receive())
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await channel.carry_out(channel.exchange.negotiate_versions("penstock", "test"))
            yield channel
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        writer.close()
        await writer.wait_closed()


async def created_topic(channel: Channel, name: str) -> bytes:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=10_000
    )
    created: CreateTopicsResponse = await channel.ask(request)
    assert created.topics[0].error_code == 0
    metadata: MetadataResponse = await channel.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name=name)]), at_least=10
    )
    assert [partition.partition_index for partition in metadata.topics[0].partitions] == [0]
    return metadata.topics[0].topic_id


def produce_request(topic_id: bytes, batch: bytearray) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])]
    )


def fetch_request(topic_id: bytes, offset: int, max_wait_ms: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000_000)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=10_000_000,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
    )


def test_versions_metadata_produce_and_fetch(broker: Broker) -> None:
    async def scenario() -> None:
        async with channel_to(broker) as channel:
            topic_id = await created_topic(channel, "exchange")
            batch = encode_batch([Record(b"one"), Record(b"two")])
            produced: ProduceResponse = await channel.ask(produce_request(topic_id, batch), at_least=13)
            answer = produced.responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, 0)
            version = channel.exchange.version_for(FetchRequest, at_least=13)
            fetched: FetchResponse = await channel.send(fetch_request(topic_id, 0), version, ReceiveBuffer())
            partition = fetched.responses[0].partitions[0]
            assert partition.high_watermark == 2
            assert partition.records is not None
            # The broker sets the leader epoch (bytes 12 to 15); everything else comes back as it was produced.
            assert bytes(partition.records[16:]) == batch[16:]

    asyncio.run(scenario())


def test_pipelined_requests_and_a_large_response(broker: Broker) -> None:
    async def scenario() -> None:
        async with channel_to(broker) as channel:
            topic_id = await created_topic(channel, "pipelined")
            batches = [encode_batch([Record(bytes([number]) * 300_000)]) for number in range(8)]
            version = channel.exchange.version_for(ProduceRequest, at_least=13)
            futures = [channel.send(produce_request(topic_id, batch), version) for batch in batches]
            assert channel.exchange.in_flight == len(batches)
            offsets = [(await future).responses[0].partition_responses[0].base_offset for future in futures]
            assert offsets == list(range(8))
            fetched: FetchResponse = await channel.ask(fetch_request(topic_id, 0), at_least=13)
            records = fetched.responses[0].partitions[0].records
            assert records is not None
            assert len(records) == sum(len(batch) for batch in batches)

    asyncio.run(scenario())


def test_a_long_poll_waits_while_the_loop_does_other_work(broker: Broker) -> None:
    async def scenario() -> None:
        async with channel_to(broker) as follower, channel_to(broker) as producer:
            topic_id = await created_topic(producer, "followed")
            version = follower.exchange.version_for(FetchRequest, at_least=13)
            poll = follower.send(fetch_request(topic_id, 0, max_wait_ms=20_000), version)
            await producer.ask(produce_request(topic_id, encode_batch([Record(b"one")])), at_least=13)
            fetched: FetchResponse = await poll
            assert fetched.responses[0].partitions[0].high_watermark == 1

    asyncio.run(scenario())
