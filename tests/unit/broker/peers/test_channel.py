"""A channel to a broker that listens on loopback: a real node and server, in the same event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.network.endpoints import BoundListener, advertised_endpoints, bind_all, close_all
from penstock.broker.network.server import Server
from penstock.broker.node import Node
from penstock.broker.peers.channel import PeerChannel
from penstock.broker.peers.credentials import PeerCredentials
from penstock.core.ids import BrokerId
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import Endpoint
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.broker.nodes import node_in

TIMEOUT_S = 30.0
SERVED = {"listeners": "PLAINTEXT://127.0.0.1:0"}


class Other:
    """The other broker: it listens from the start, and may stop."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.endpoint: Endpoint | None = None
        self._bound: list[BoundListener] = []

    async def listen(self) -> None:
        config = BrokerConfig.load(overrides=[f"{name}={text}" for name, text in SERVED.items()])
        self._bound = list(bind_all(config.listeners))
        self._server = Server(self.node)
        await self._server.listen(self._bound)
        self.endpoint = advertised_endpoints(config.advertised_listeners, self._bound)["PLAINTEXT"]

    def stop(self) -> None:
        self._server.close()
        close_all(self._bound)


def run(directory: Path, scenario: Callable[[PeerChannel, Other], Awaitable[None]]) -> None:
    async def main() -> None:
        with node_in(directory) as node:
            other = Other(node)
            await other.listen()
            channel = PeerChannel(BrokerId(2), lambda: other.endpoint, PeerCredentials(), "broker-1", "0")
            try:
                await scenario(channel, other)
            finally:
                channel.close()
                other.stop()
                for _ in range(10):  # in which transports that were aborted release their sockets
                    await asyncio.sleep(0)

    asyncio.run(main())


async def ask(channel: PeerChannel) -> MetadataResponse:
    response = await channel.request(MetadataRequest(topics=[]), timeout_s=TIMEOUT_S)
    assert isinstance(response, MetadataResponse)
    return response


async def refusal(channel: PeerChannel, *, timeout_s: float = TIMEOUT_S) -> BrokerError:
    with pytest.raises(BrokerError) as refused:
        await channel.request(MetadataRequest(topics=[]), timeout_s=timeout_s)
    return refused.value


def test_requests_share_a_connection_and_are_answered_in_their_order(tmp_path: Path) -> None:
    async def scenario(channel: PeerChannel, other: Other) -> None:
        answers = await asyncio.gather(*(ask(channel) for _ in range(20)))
        assert {answer.cluster_id for answer in answers} == {other.node.image.cluster_id}

    run(tmp_path, scenario)


def test_a_broker_that_is_not_registered_is_not_waited_for(tmp_path: Path) -> None:
    async def scenario(channel: PeerChannel, other: Other) -> None:
        other.endpoint = None
        error = await refusal(channel)
        assert error.code == ErrorCode.NETWORK_EXCEPTION
        assert "broker 2 cannot be reached: it is not registered" in error.message

    run(tmp_path, scenario)


def test_a_broker_that_comes_back_at_another_address_is_reached_there(tmp_path: Path) -> None:
    async def scenario(channel: PeerChannel, other: Other) -> None:
        await ask(channel)
        other.stop()
        await refusal(channel)
        await other.listen()
        await ask(channel)

    run(tmp_path, scenario)


def test_what_is_in_flight_fails_when_the_connection_is_lost(tmp_path: Path) -> None:
    async def scenario(channel: PeerChannel, other: Other) -> None:
        await ask(channel)
        waiting = asyncio.gather(ask(channel), ask(channel), return_exceptions=True)
        await asyncio.sleep(0)
        channel.disconnect("the test says so")
        for error in await waiting:
            assert isinstance(error, BrokerError)
            assert error.code == ErrorCode.NETWORK_EXCEPTION
            assert "the test says so" in error.message

    run(tmp_path, scenario)


def test_a_request_without_an_answer_in_time_ends_its_connection(tmp_path: Path) -> None:
    async def main() -> None:
        hung_up = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            hung_up.set()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        channel = PeerChannel(BrokerId(2), lambda: Endpoint(host, port), PeerCredentials(), "broker-1", "0")
        error = await refusal(channel, timeout_s=1.0)
        assert error.code == ErrorCode.NETWORK_EXCEPTION
        assert "within 1 s" in error.message
        await hung_up.wait()
        channel.close()
        server.close()
        await server.wait_closed()

    asyncio.run(main())


def test_a_caller_that_gives_up_leaves_the_answers_of_the_others_in_order(tmp_path: Path) -> None:
    async def scenario(channel: PeerChannel, other: Other) -> None:
        await ask(channel)
        first = asyncio.ensure_future(ask(channel))
        second = asyncio.ensure_future(ask(channel))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).cluster_id == other.node.image.cluster_id

    run(tmp_path, scenario)


def test_a_closed_channel_refuses(tmp_path: Path) -> None:
    async def scenario(channel: PeerChannel, other: Other) -> None:
        channel.close()
        assert "this broker stops" in (await refusal(channel)).message

    run(tmp_path, scenario)
