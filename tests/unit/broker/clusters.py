"""Several whole nodes inside the test's own process: real logs and coordinators, one metadata, and no sockets.

Requests between brokers go through the codec to the other node's handler. `replicate` copies what a leader's log has
and a follower's lacks, as a fetch would, and tells the leader. Leaders move when the test says so: `elect`.

A broker can be cut off: requests to it and from it fail, nothing is replicated to it or from it, and it does not hear
of changes of the metadata until it is connected again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.broker.deferred import Deferred
from penstock.broker.main import open_node
from penstock.broker.node import Node
from penstock.broker.partition import Partition
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.broker.system import SystemClock, SystemEntropy
from penstock.core.ids import BrokerId, LeaderEpoch, TopicName
from penstock.core.metrics import Metrics
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import BrokerGone, BrokerImage, BrokerRegistered, Change, Endpoint, PartitionChanged
from penstock.metadata.image import ClusterImage
from penstock.metadata.store import CommittedChanges, Decide, OnDecided
from penstock.metadata.topics import NewTopic
from penstock.protocol.codec import reader, writer
from penstock.protocol.definitions.fetch import FetchRequest
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import parse_header
from tests.clocks import ManualClock
from tests.unit.broker.nodes import LISTENER_NAME, FakeConnection, make_topics

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "offsets.commit.timeout.ms": "30000",
}


class SharedStore:
    """A node's view of the one metadata: its image, which stands still while the broker is cut off."""

    def __init__(self, cluster: Cluster) -> None:
        self.lease_deadline_ms: int | None = 1 << 62
        self.image = ClusterImage("cluster")
        self._cluster = cluster
        self._position = 0
        self._subscriber: Callable[[CommittedChanges], None] = lambda committed: None

    def subscribe(self, on_committed: Callable[[CommittedChanges], None]) -> None:
        self._subscriber = on_committed

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        try:
            changes = tuple(decide(self._cluster.image))
        except BrokerError as error:
            on_decided(error.to_keep())
            return
        self._cluster.commit(*changes)
        on_decided(None)

    def follow(self, history: Sequence[tuple[Change, ...]]) -> None:
        """Hears of everything that it has not heard of."""
        while self._position < len(history):
            changes = history[self._position]
            self._position += 1
            for change in changes:
                self.image.apply(change)
            self._subscriber(CommittedChanges(self._position, changes))

    def close(self) -> None:
        pass

    async def leave(self) -> None:
        pass


class FakePeers:
    """The other brokers as one of them reaches them."""

    def __init__(self, cluster: Cluster, own_id: BrokerId) -> None:
        self._cluster = cluster
        self._own_id = own_id

    def channel(self, broker_id: BrokerId, lane: str = "requests") -> FakeChannel:
        assert broker_id != self._own_id
        return FakeChannel(self._cluster, self._own_id, broker_id)

    def disconnect(self, broker_id: BrokerId) -> None:
        pass

    def retry_now(self, broker_id: BrokerId) -> None:
        pass

    def close(self) -> None:
        pass


class FakeChannel:
    def __init__(self, cluster: Cluster, own_id: BrokerId, broker_id: BrokerId) -> None:
        self._cluster = cluster
        self._own_id = own_id
        self._broker_id = broker_id

    async def request(self, message: Any, *, timeout_s: float, at_least: int = 0, into: object = None) -> Any:
        cluster = self._cluster
        if isinstance(message, FetchRequest):
            # Replicas are copied by `replicate`, when the test says so.
            raise BrokerError(ErrorCode.NETWORK_EXCEPTION, "Followers do not fetch by themselves.")
        await asyncio.sleep(0)
        hold = cluster.holds.get((self._broker_id, type(message)))
        if hold is not None:
            await hold.wait()
        cluster.requests.append((self._own_id, self._broker_id, message))
        if not cluster.are_connected(self._own_id, self._broker_id):
            raise BrokerError(ErrorCode.NETWORK_EXCEPTION, "It is cut off.")
        route = BY_API_KEY[type(message).API_KEY]
        assert route.max_version >= at_least
        response = await cluster.ask(self._broker_id, message)
        if not cluster.are_connected(self._own_id, self._broker_id):
            raise BrokerError(ErrorCode.NETWORK_EXCEPTION, "It is cut off.")
        return response


class Cluster:
    def __init__(self) -> None:
        self.image = ClusterImage("cluster")
        self.nodes: dict[BrokerId, Node] = {}
        self.failures: list[str] = []  # that would stop a broker
        self.requests: list[tuple[BrokerId, BrokerId, Any]] = []  # between brokers
        self.holds: dict[tuple[BrokerId, type], asyncio.Event] = {}  # requests to a broker that are on their way
        self.stores: dict[BrokerId, SharedStore] = {}
        self._history: list[tuple[Change, ...]] = []
        self._cut_off: set[BrokerId] = set()

    # Brokers

    def start(
        self, directory: Path, broker_id: BrokerId, settings: Mapping[str, str], clock: ManualClock | None
    ) -> Node:
        named = {**SETTINGS, "node.id": str(broker_id), "log.dirs": str(directory), **settings}
        config = BrokerConfig.load(overrides=[f"{name}={value}" for name, value in named.items()])
        store = SharedStore(self)
        node = open_node(
            config,
            directory,
            store,
            asyncio.get_running_loop(),
            self.failures.append,
            clock=clock or SystemClock(),
            entropy=SystemEntropy(),
            metrics=Metrics(),
        )
        node._peers = FakePeers(self, broker_id)  # type: ignore[assignment]  # its part that coordinators use
        self.nodes[broker_id] = node
        self.stores[broker_id] = store
        endpoints = {LISTENER_NAME: Endpoint("127.0.0.1", 9092 + broker_id)}
        self.commit(BrokerRegistered(BrokerImage(broker_id, endpoints, epoch=self.image.last_broker_epoch + 1)))
        # As `open_topics`, but for the fetchers: the test replicates.
        node._replicas.open_all()
        node.appends.is_fenced = lambda: node.is_fenced
        return node

    def commit(self, *changes: Change) -> None:
        for change in changes:
            self.image.apply(change)
        self._history.append(changes)
        for broker_id, store in self.stores.items():
            if broker_id not in self._cut_off:
                store.follow(self._history)

    def cut_off(self, broker_id: BrokerId, *, is_gone: bool = False) -> None:
        """With `is_gone` its lease is over too, which the others hear of."""
        self._cut_off.add(broker_id)
        if is_gone:
            self.commit(BrokerGone(broker_id, self.image.brokers[broker_id].epoch))

    def connect(self, broker_id: BrokerId) -> None:
        self._cut_off.discard(broker_id)
        self.stores[broker_id].follow(self._history)

    def are_connected(self, *broker_ids: BrokerId) -> bool:
        return self._cut_off.isdisjoint(broker_ids)

    # Partitions

    def make_topic(self, name: str, *leaders: BrokerId) -> None:
        """A partition for each of the leaders, replicated to every broker."""
        others = list(self.nodes)
        assignment = [
            (index, [leader, *(each for each in others if each != leader)]) for index, leader in enumerate(leaders)
        ]
        node = next(node for broker_id, node in self.nodes.items() if broker_id not in self._cut_off)
        make_topics(node, NewTopic(name, assignment=assignment))

    def elect(self, topic: str, index: int, leader: BrokerId, isr: Sequence[BrokerId] | None = None) -> None:
        image = self.image.topics[TopicName(topic)]
        before = image.partitions[index]
        after = replace(
            before,
            leader=leader,
            leader_epoch=LeaderEpoch(before.leader_epoch + 1),
            isr=before.isr if isr is None else tuple(isr),
            partition_epoch=before.partition_epoch + 1,
        )
        self.commit(PartitionChanged(image.topic_id, after))

    def change_in_sync(self, topic: str, index: int, isr: Sequence[BrokerId]) -> None:
        image = self.image.topics[TopicName(topic)]
        before = image.partitions[index]
        after = replace(before, isr=tuple(isr), partition_epoch=before.partition_epoch + 1)
        self.commit(PartitionChanged(image.topic_id, after))

    def partition(self, broker_id: BrokerId, topic: str, index: int = 0) -> Partition:
        partition = self.nodes[broker_id].topics.topic(topic).partitions[index]
        assert partition is not None
        return partition

    def replicate(self) -> None:
        """Every follower that is connected to its leader fetches once."""
        for topic in self.image.topics.values():
            for image in topic.partitions:
                if image.leader not in self.nodes or not self.are_connected(image.leader):
                    continue
                self.nodes[image.leader].appends.write()
                leader = self.partition(image.leader, topic.name, image.index)
                for follower_id in image.replicas:
                    if follower_id != image.leader and self.are_connected(follower_id):
                        follower = self.partition(follower_id, topic.name, image.index)
                        _copy(leader, follower)
                        epoch = self.image.known_brokers[follower_id].epoch
                        log = follower.log
                        leader.follower_fetched(follower_id, log.log_end_offset, 0, epoch, log.log_start_offset)

    # Requests of clients

    async def ask(self, broker_id: BrokerId, request: Any, version: int | None = None) -> Any:
        """The response as a client of that version reads it, while followers go on to replicate."""
        node = self.nodes[broker_id]
        answer, version = self.begin(broker_id, request, version)
        if isinstance(answer, Deferred):
            await self.until(lambda: answer.done)
            answer = answer.response
        assert node is self.nodes[broker_id]
        out = bytearray()
        write: Any = writer(type(answer), version)
        write(out, answer)
        read: Any = reader(type(answer), version)
        return read(memoryview(out), 0, len(out))[0]

    def begin(self, broker_id: BrokerId, request: Any, version: int | None = None) -> tuple[Any, int]:
        route = BY_API_KEY[type(request).API_KEY]
        version = route.max_version if version is None else version
        frame = bytearray()
        writer(type(request), version)(frame, request)
        node = self.nodes[broker_id]
        received = route.read(version, memoryview(frame), 0)
        answer = route.handle(received, RequestContext(node, version, "test", FakeConnection()))
        node.appends.write()
        return answer, version

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            self.replicate()
            while not condition():
                await self.turn()
                assert not self.failures

    async def turn(self) -> None:
        """Whatever is on its way goes on."""
        await asyncio.sleep(0.001)
        self.replicate()


def _copy(leader: Partition, follower: Partition) -> None:
    """Batches are appended as they are, behind a truncation to where the leader's log begins to be another one."""
    log, copy = leader.log, follower.log
    if copy.log_end_offset:
        _, end_offset = log.leader_epochs.end_offset_for(copy.leader_epochs.latest, log.log_end_offset)
        if 0 <= end_offset < copy.log_end_offset:
            copy.truncate_to(end_offset)
    while copy.log_end_offset < log.log_end_offset:
        content = bytearray(log.read(copy.log_end_offset, 1 << 20, log.log_end_offset).read())
        position = 0
        while position < len(content):
            header = parse_header(content, position)
            batch = memoryview(content)[position : position + header.size]
            copy.stage(batch, header, header.partition_leader_epoch, 0)
            position += header.size
        copy.write_staged()
    if copy.log_start_offset < log.log_start_offset:
        copy.delete_records_before(log.log_start_offset)


@asynccontextmanager
async def cluster_in(
    directory: Path, settings: Mapping[str, str] | None = None, *, brokers: int = 3, clock: ManualClock | None = None
) -> AsyncIterator[Cluster]:
    cluster = Cluster()
    with ExitStack() as stack:
        for number in range(1, brokers + 1):
            own = directory / str(number)
            own.mkdir(exist_ok=True)
            node = cluster.start(own, BrokerId(number), settings or {}, clock)
            stack.callback(node.close, clean=True)
        try:
            yield cluster
        finally:
            for node in cluster.nodes.values():
                await node.tasks.close()
        assert not cluster.failures
