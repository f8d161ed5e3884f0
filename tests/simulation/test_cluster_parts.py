"""The parts of a simulated cluster keep what they promise: order, time, cut links, leases and watches."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from penstock.metadata.key_value_store import (
    NO_REVISION,
    Compare,
    Delete,
    LeaseNotFound,
    Put,
    RevisionCompacted,
    StoreUnavailable,
    WatchedChanges,
)
from tests.simulation.cluster.etcd import EtcdClient, SimulatedEtcd
from tests.simulation.cluster.network import ListeningSocket, Network
from tests.simulation.cluster.world import ProcessLoop, World


def nothing() -> None:
    """Called behind every turn."""


def run(world: World, loop: ProcessLoop, work: Coroutine[Any, Any, Any], within_s: float = 60.0) -> Any:
    task = loop.create_task(work)
    assert world.run_until(task.done, world.now_s + within_s, nothing)
    return task.result()


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.is_lost = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Pair:
    """A connection between the hosts `a` and `b`."""

    def __init__(self) -> None:
        self.world = World(1)
        self.network = Network(self.world)
        self.a, self.b = ProcessLoop(self.world, "a"), ProcessLoop(self.world, "b")
        self.network.join(self.a, "a")
        self.network.join(self.b, "b")
        self.server = Recorder()
        run(self.world, self.b, self.b.create_server(lambda: self.server, sock=ListeningSocket("b", 1)))
        _, protocol = run(self.world, self.a, self.a.create_connection(Recorder, "b", 1))
        self.client = cast(Recorder, protocol)

    def pass_time(self, seconds: float) -> None:
        self.world.run_until(lambda: False, self.world.now_s + seconds, nothing)


def test_bytes_of_a_connection_arrive_in_order() -> None:
    pair = Pair()
    for number in range(50):
        pair.client.transport.write(bytes([number]))
    pair.pass_time(1)
    assert pair.server.received == bytes(range(50))


def test_a_link_is_cut_in_one_direction_and_healed() -> None:
    pair = Pair()
    pair.network.cut("a", "b")
    pair.client.transport.write(b"request")
    pair.pass_time(1)  # the server is connected by now
    assert pair.server.received == b""
    pair.server.transport.write(b"the other direction works")
    pair.pass_time(1)
    assert pair.client.received == b"the other direction works"
    pair.network.heal()
    pair.pass_time(1)
    assert pair.server.received == b"request"


def test_what_a_closed_connection_had_not_sent_never_arrives() -> None:
    pair = Pair()
    pair.network.cut("a", "b")
    pair.client.transport.write(b"request")
    pair.client.transport.abort()
    pair.pass_time(1)
    pair.network.heal()
    pair.pass_time(1)
    assert pair.server.received == b""
    assert pair.server.is_lost


def test_the_end_of_a_process_resets_its_connections() -> None:
    pair = Pair()
    pair.b.kill()
    pair.network.host_died(pair.b)
    pair.pass_time(1)
    assert pair.client.is_lost
    with pytest.raises(ConnectionRefusedError):
        run(pair.world, pair.a, pair.a.create_connection(Recorder, "b", 1))


def test_a_paused_process_catches_up_in_order() -> None:
    pair = Pair()
    pair.pass_time(1)
    fired: list[int] = []
    for number in range(5):
        pair.b.call_later(number / 10, fired.append, number)
    pair.b.pause()
    pair.client.transport.write(b"x")
    pair.pass_time(5)
    assert (fired, pair.server.received) == ([], b"")
    pair.b.resume()
    pair.pass_time(0.001)
    assert (fired, pair.server.received) == ([0, 1, 2, 3, 4], b"x")


class Store:
    def __init__(self) -> None:
        self.world = World(1)
        self.network = Network(self.world)
        self.etcd = SimulatedEtcd(self.world)
        self.loop = ProcessLoop(self.world, "a")
        self.client = EtcdClient(self.etcd, self.network, self.loop, "a")

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return run(self.world, self.loop, work)

    def pass_time(self, seconds: float) -> None:
        self.world.run_until(lambda: False, self.world.now_s + seconds, nothing)


def test_of_two_commits_that_compare_the_same_revision_one_succeeds() -> None:
    store = Store()
    first = store.do(store.client.commit([Compare("k", NO_REVISION)], [Put("k", b"1")]))
    second = store.do(store.client.commit([Compare("k", NO_REVISION)], [Put("k", b"2")]))
    assert (first.succeeded, second.succeeded) == (True, False)
    third = store.do(store.client.commit([Compare("k", first.revision)], [Put("k", b"3"), Delete("other")]))
    assert third.succeeded
    assert [entry.value for entry in store.do(store.client.read("k")).entries] == [b"3"]
    assert [entry.value for entry in store.do(store.client.read("k", revision=first.revision)).entries] == [b"1"]


def test_a_lease_ends_with_its_keys_unless_it_is_kept_alive() -> None:
    store = Store()
    lease = store.do(store.client.grant_lease(2000))
    store.do(store.client.commit([], [Put("k", b"1", lease.lease_id)]))
    for _ in range(4):
        store.pass_time(1.5)
        store.do(store.client.keep_alive(lease.lease_id))
    assert store.do(store.client.read("k")).entries
    store.pass_time(3)
    assert not store.do(store.client.read("k")).entries
    with pytest.raises(LeaseNotFound):
        store.do(store.client.keep_alive(lease.lease_id))
    with pytest.raises(LeaseNotFound):
        store.do(store.client.commit([], [Put("k", b"1", lease.lease_id)]))


def test_a_watch_delivers_every_revision_in_order_or_breaks() -> None:
    store = Store()
    begin = store.etcd.revision
    seen: list[WatchedChanges] = []

    async def follow() -> None:
        async for changes in store.client.watch("p/", after=begin):
            seen.append(changes)

    task = store.loop.create_task(follow())
    for number in range(5):
        store.do(store.client.commit([], [Put("p/k", bytes([number])), Put("q", b"")]))
    store.pass_time(1)
    assert [changes.changes[0].value for changes in seen] == [bytes([number]) for number in range(5)]
    store.etcd.go_away()
    store.pass_time(1)
    with pytest.raises(StoreUnavailable):
        task.result()


def test_a_watch_of_compacted_history_says_so() -> None:
    store = Store()
    begin = store.etcd.revision
    store.do(store.client.commit([], [Put("k", b"1")]))
    store.etcd.compact()

    async def first() -> WatchedChanges:
        return await anext(store.client.watch("k", after=begin))

    with pytest.raises(RevisionCompacted):
        store.do(first())


def test_a_request_that_timed_out_may_take_effect_later() -> None:
    """Of many requests on a cut link some are sent again after it was healed."""
    store = Store()
    store.network.cut("a", "etcd")
    for number in range(20):
        with pytest.raises(StoreUnavailable):
            store.do(store.client.commit([], [Put(f"k{number}", b"")]))
    assert store.etcd.revision == 1
    store.network.heal()
    store.pass_time(1)
    assert 1 < store.etcd.revision < 21
