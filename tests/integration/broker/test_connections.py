"""Connections that come and go leave nothing behind, and a bad neighbour harms nobody."""

from __future__ import annotations

import gc
import socket
import time

import psutil

from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.clients.waiting import eventually
from tests.integration.broker.conversation import (
    FETCH_VERSION,
    create_topic,
    fetch_request,
    is_silent,
    produce_ok,
)
from tests.wire_client import ConnectionClosed, WireClient

IDLE_MS = 500
ROUND = 300


def _use_and_leave(broker: Broker, topic_request: object, ways: int) -> None:
    """Connections that end in every way: used and closed, closed at once, reset, in the middle of a frame, parked."""
    for number in range(ROUND):
        client = WireClient(broker.bootstrap_servers)
        way = number % ways
        if way == 0:
            assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
        elif way == 1:
            client.send_raw(b"\0\0\x10\0half a frame")
        elif way == 2:
            client.send(topic_request, FETCH_VERSION)  # type: ignore[arg-type]
        elif way == 3:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()


def test_connections_leak_neither_descriptors_nor_memory(own_broker: Broker) -> None:
    process = psutil.Process(own_broker.pid)
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "awaited")
        parked = fetch_request(topic, {0: 0}, max_wait_ms=60_000)
        _use_and_leave(own_broker, parked, 5)
        descriptors = _settled_descriptors(process)
        memory = process.memory_info().rss

        for _ in range(4):
            _use_and_leave(own_broker, parked, 5)

        assert eventually(lambda: process.num_fds() <= descriptors)
        assert process.memory_info().rss - memory < 4 << 20
        assert produce_ok(client, topic, b"still here") == 0


def _settled_descriptors(process: psutil.Process) -> int:
    """The broker learns of a closed connection a moment after it was closed."""
    gc.collect()
    counts = [process.num_fds()]
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        time.sleep(0.1)
        counts.append(process.num_fds())
        if counts[-1] == counts[-2]:
            break
    return counts[-1]


def test_a_thousand_connections_at_once(own_broker: Broker) -> None:
    clients = []
    try:
        for _ in range(1000):
            clients.append(WireClient(own_broker.bootstrap_servers))
        ids = [client.send(ApiVersionsRequest(), 0) for client in clients]
        for client, correlation_id in zip(clients, ids, strict=True):
            assert client.receive(18, 0, correlation_id).error_code == ErrorCode.NONE
    finally:
        for client in clients:
            client.close()


def test_idle_connections_are_closed() -> None:
    """A busy one is not, unless this process was itself idle for too long: then it starts over."""
    with Broker(config={"connections.max.idle.ms": str(IDLE_MS)}) as broker:
        while not _only_the_idle_one_is_closed(broker):
            pass


def _only_the_idle_one_is_closed(broker: Broker) -> bool:
    with WireClient(broker.bootstrap_servers) as idle, WireClient(broker.bootstrap_servers) as busy:
        asked = time.monotonic()
        longest_s = 0.0
        closed = False
        try:
            while not closed:
                closed = not is_silent(idle, 0.05)
                assert busy.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
                longest_s = max(longest_s, time.monotonic() - asked)
                asked = time.monotonic()
        except (ConnectionClosed, ConnectionError):
            assert max(longest_s, time.monotonic() - asked) > IDLE_MS / 1000 / 2
            return False
        assert idle.is_closed_by_peer()
    return True
