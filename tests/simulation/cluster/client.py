"""A client of the cluster on the codec: connections to brokers, and the metadata that leads to the right one.

`ask` sends one request to one broker, once. Retries are decided by those who ask (`producers.py`, `consumers.py`), as
Kafka's clients decide them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.exchange import Exchange
from penstock.protocol.schema import Message
from tests.simulation.cluster.network import End, Network
from tests.simulation.cluster.world import ProcessLoop, World

BROKER_PORT: Final = 9092
REQUEST_TIMEOUT_S: Final = 3.0
RETRY_S: Final = 0.1
METADATA_VERSION: Final = 9
FIND_COORDINATOR_VERSION: Final = 3
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1

Place = tuple[str, int]


class Unreachable(Exception):
    """The broker could not be reached, hung up, or did not answer in time. What was asked for may have been done."""


def broker_host(broker_id: int) -> str:
    return f"broker{broker_id}"


class Client:
    """One client process. Everything that happens in it is a task of its loop."""

    def __init__(self, world: World, network: Network, name: str, brokers: list[int]) -> None:
        self.world = world
        self.name = name
        self.loop = ProcessLoop(world, name)
        network.join(self.loop, name)
        self._brokers = brokers
        self._channels: dict[int, Channel] = {}
        self._leaders: dict[Place, tuple[int, int]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def note(self, text: str) -> None:
        self.world.note(f"{self.name}: {text}")

    async def sleep(self, seconds: float) -> None:
        woken = self.loop.create_future()
        self.loop.call_later(seconds, woken.set_result, None)
        await woken

    async def back_off(self) -> None:
        await self.sleep(RETRY_S * self.world.random.uniform(0.5, 1.5))

    async def ask(self, broker: int, request: Message, version: int, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        channel = self._channels.get(broker)
        if channel is None or channel.is_lost:
            channel = self._channels[broker] = Channel(self.loop, self.name, broker)
            channel.connecting = self.loop.create_task(channel.connect())
        timer = self.loop.call_later(timeout_s, channel.lose, Unreachable(f"broker {broker} does not answer"))
        try:
            return await channel.ask(request, version)
        finally:
            timer.cancel()

    def any_broker(self) -> int:
        return self.world.random.choice(self._brokers)

    # Metadata

    async def leader_of(self, place: Place) -> tuple[int, int]:
        """Leader and epoch as this client knows them. An epoch never goes back."""
        while place not in self._leaders:
            await self.refresh(place[0])
            if place not in self._leaders:
                await self.back_off()
        return self._leaders[place]

    def forget_leader(self, place: Place) -> None:
        self._leaders.pop(place, None)

    async def refresh(self, topic: str) -> list[int]:
        """Returns the indexes of the topic's partitions."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        try:
            answer = await self.ask(self.any_broker(), request, METADATA_VERSION)
        except Unreachable:
            return []
        for partition in answer.topics[0].partitions:
            if partition.leader_id >= 0 and not partition.error_code:
                self._leaders[topic, partition.partition_index] = (partition.leader_id, partition.leader_epoch)
        return sorted(partition.partition_index for partition in answer.topics[0].partitions)

    async def coordinator_of(self, kind: int, key: str) -> int:
        while (kind, key) not in self._coordinators:
            try:
                answer = await self.ask(
                    self.any_broker(), FindCoordinatorRequest(key=key, key_type=kind), FIND_COORDINATOR_VERSION
                )
            except Unreachable:
                await self.back_off()
                continue
            if answer.error_code == ErrorCode.NONE:
                self._coordinators[kind, key] = answer.node_id
            else:
                await self.back_off()
        return self._coordinators[kind, key]

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def ask_coordinator(self, kind: int, key: str, request: Message, version: int) -> Any:
        """Asks the coordinator, and forgets it if it cannot be reached."""
        try:
            return await self.ask(await self.coordinator_of(kind, key), request, version)
        except Unreachable:
            self.forget_coordinator(kind, key)
            raise


class Channel(asyncio.BufferedProtocol):
    """One connection. Requests are answered in order; when it is lost, all of them fail."""

    connecting: asyncio.Task[None]

    def __init__(self, loop: ProcessLoop, client: str, broker: int) -> None:
        self._loop = loop
        self._broker = broker
        self._settled: asyncio.Future[None] = loop.create_future()  # connected, or lost
        self._exchange = Exchange(f"broker {broker}", client)
        self._transport: End | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._failure: Unreachable | None = None

    @property
    def is_lost(self) -> bool:
        return self._failure is not None

    async def connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: self, broker_host(self._broker), BROKER_PORT)
        except OSError as error:
            self.lose(Unreachable(str(error)))

    async def ask(self, request: Message, version: int) -> Any:
        await self._settled
        if self._failure is not None:
            raise Unreachable(*self._failure.args)
        assert self._transport is not None
        sent, chunks = self._exchange.send(request, version)
        answer = self._waiting[sent.correlation_id] = self._loop.create_future()
        self._transport.writelines(chunks)
        return await answer

    def lose(self, failure: Unreachable) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        if self._transport is not None:
            self._transport.abort()
        if not self._settled.done():
            self._settled.set_result(None)
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.set_exception(Unreachable(*failure.args))

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, End)
        if self._failure is not None:
            transport.abort()
            return
        self._transport = transport
        self._settled.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose(Unreachable(f"broker {self._broker} hung up"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._exchange.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        answered = self._exchange.advance(nbytes)
        if answered is None:
            return
        self._waiting.pop(answered.correlation_id).set_result(answered.decode())
