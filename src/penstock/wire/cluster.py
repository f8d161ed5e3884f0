"""A cluster's connections, and whom to ask: the leader of a partition, the coordinator of a group or a transaction.

Owns the connections, one per broker for ordinary requests and further ones for long polls, what is known of the
cluster, and the rule for trying again: whatever a broker calls retriable, or breaks off, is asked again with fresh
metadata until the call's deadline. It must never know what a request means.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar

from penstock.core.errors import ProtocolError
from penstock.core.ids import NO_LEADER, TopicPartition
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.error_codes import BrokerError, ErrorCode, known_code
from penstock.protocol.schema import Message
from penstock.wire.connection import Address, Connection, Pending
from penstock.wire.errors import ConnectionLost, require_success
from penstock.wire.metadata import ClusterMetadata, TopicMetadata, metadata_request, read_metadata
from penstock.wire.retry import Retry
from penstock.wire.settings import WireSettings
from penstock.wire.tls import tls_context

T = TypeVar("T")
CoordinatorKind = Literal["group", "transaction"]
_KEY_TYPES: Final[Mapping[CoordinatorKind, int]] = {"group": 0, "transaction": 1}
_FIND_MANY_SINCE: Final = 4
_TOPIC_IDS_SINCE: Final = 10


class Leader(NamedTuple):
    node_id: int
    epoch: int
    topic_id: bytes


class PartitionAnswer(NamedTuple):
    partition: TopicPartition
    error_code: int
    value: Any


class Cluster:
    def __init__(self, settings: WireSettings) -> None:
        self.settings = settings
        self._tls = None if settings.tls is None else tls_context(settings.tls)
        self._bootstrap = [Address(*server) for server in settings.servers]
        self._brokers: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}
        # Those that streams have for themselves; closed with the client if their owners have not done so.
        self._dedicated: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._topics: dict[str, tuple[TopicMetadata, float]] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}

    def close(self) -> None:
        for connection in [*self._connections.values(), *self._dedicated]:
            connection.close()
        self._connections.clear()

    def retry(self, subject: str, timeout_s: float | None = None) -> Retry:
        return Retry(self.settings, subject, timeout_s)

    # Connections

    def connection(self, node_id: int) -> Connection:
        return self._connection_to(self._address(node_id))

    def dedicated_connection(self, node_id: int) -> Connection:
        """One more, which the caller closes: a long poll would hold up what comes behind it on a shared one."""
        connection = Connection(self._address(node_id), self.settings, self._tls)
        self._dedicated.add(connection)
        return connection

    def any_connection(self) -> Connection:
        """An open one if there is one; else every known broker is tried, then the bootstrap servers."""
        for connection in self._connections.values():
            if self._is_usable(connection):
                return connection
        lost = ConnectionLost("no broker is known")
        for address in dict.fromkeys([*self._brokers.values(), *self._bootstrap]):
            try:
                return self._connection_to(address)
            except ConnectionLost as error:
                lost = error
        raise lost

    def _address(self, node_id: int) -> Address:
        address = self._brokers.get(node_id)
        if address is None:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id} is not there at the moment")
        return address

    def _connection_to(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and self._is_usable(connection):
            return connection
        if connection is not None:
            connection.close()
        connection = self._connections[address] = Connection(address, self.settings, self._tls)
        return connection

    def _is_usable(self, connection: Connection) -> bool:
        if connection.in_flight:
            return connection.is_open
        idle_s = time.monotonic() - connection.last_used
        return (
            connection.is_open
            and not connection.is_expired
            and idle_s < self.settings.seconds("connections.max.idle.ms")
        )

    # What is known of the cluster

    def fetch_metadata(self, topics: Iterable[str] | None, *, allow_auto_topic_creation: bool) -> ClusterMetadata:
        """Asks one broker once, and remembers what it says."""
        wanted = None if topics is None else list(topics)
        connection = self.any_connection()
        version = connection.version_for(MetadataRequest, at_least=_TOPIC_IDS_SINCE)
        request = metadata_request(wanted, allow_auto_topic_creation=allow_auto_topic_creation)
        metadata = read_metadata(connection.ask(request, version))
        self._brokers = dict(metadata.brokers)
        now = time.monotonic()
        for name in list(self._topics) if wanted is None else wanted:
            self._topics.pop(name, None)
        self._topics.update({name: (topic, now) for name, topic in metadata.topics.items()})
        return metadata

    def leader(self, partition: TopicPartition) -> Leader:
        """Raises a retriable BrokerError where there is none, or no such partition."""
        topic = self._topic(partition.topic)
        found = topic.partitions.get(partition.partition)
        if found is None:
            self._topics.pop(partition.topic, None)
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist: there are {len(topic.partitions)}"
            )
        if found.leader_id == NO_LEADER or found.leader_id not in self._brokers:
            self._topics.pop(partition.topic, None)
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment")
        return Leader(found.leader_id, found.leader_epoch, topic.topic_id)

    def know_topics(self, names: Iterable[str]) -> None:
        """One request for all of those that are not known, or not recently enough."""
        now, age_max = time.monotonic(), self.settings.seconds("metadata.max.age.ms")
        stale = [name for name in names if name not in self._topics or now - self._topics[name][1] > age_max]
        if stale:
            self.fetch_metadata(stale, allow_auto_topic_creation=False)

    def _topic(self, name: str) -> TopicMetadata:
        self.know_topics([name])
        known = self._topics.get(name)
        if known is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{name}' does not exist")
        return known[0]

    def distrust_topics(self, names: Iterable[str]) -> None:
        """A leader was not where it was believed to be: the next one who asks for it asks a broker."""
        for name in names:
            self._topics.pop(name, None)

    # Asking until there is an answer

    def ask_any(self, subject: str, attempt: Callable[[Connection], T], timeout_s: float | None = None) -> T:
        """`attempt` asks one broker once; ConnectionLost and retriable BrokerErrors are tried again."""
        retry = self.retry(subject, timeout_s)
        while True:
            try:
                return attempt(self.any_connection())
            except (ConnectionLost, BrokerError) as cause:
                retry.pause(cause)

    def ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        attempt: Callable[[Connection], T],
        timeout_s: float | None = None,
    ) -> T:
        retry = self.retry(f"{kind} '{key}'", timeout_s)
        while True:
            try:
                return attempt(self.connection(self._coordinator(kind, key)))
            except (ConnectionLost, BrokerError) as cause:
                if not isinstance(cause, BrokerError) or cause.code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    self._coordinators.pop((kind, key), None)
                retry.pause(cause)

    def _coordinator(self, kind: CoordinatorKind, key: str) -> int:
        node_id = self._coordinators.get((kind, key))
        if node_id is not None:
            return node_id
        connection = self.any_connection()
        version = connection.version_for(FindCoordinatorRequest, at_least=_FIND_MANY_SINCE)
        request = FindCoordinatorRequest(key_type=_KEY_TYPES[kind], coordinator_keys=[key])
        response: FindCoordinatorResponse = connection.ask(request, version)
        found = response.coordinators[0]
        require_success(found.error_code, f"coordinator of {kind} '{key}'", found.error_message)
        self._brokers[found.node_id] = Address(found.host, found.port)
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    def ask_leaders(
        self,
        subject: str,
        partitions: Iterable[TopicPartition],
        build: Callable[[Connection, Mapping[TopicPartition, Leader]], tuple[Message, int]],
        read: Callable[[Any], Iterable[PartitionAnswer]],
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, Any]:
        """Every partition's value, asked of its leader: one request per broker, all of them under way at once."""
        retry = self.retry(subject, timeout_s)
        results: dict[TopicPartition, Any] = {}
        waiting = dict.fromkeys(partitions)
        while waiting:
            try:
                failure = self._ask_leaders_once(waiting, build, read, results)
            except (ConnectionLost, BrokerError) as cause:
                failure = cause
            for partition in results:
                waiting.pop(partition, None)
            if waiting:
                self.distrust_topics({partition.topic for partition in waiting})
                if failure is None:
                    raise ProtocolError(f"{subject}: a broker left {len(waiting)} partitions out of its answer")
                retry.pause(failure)
        return results

    def _ask_leaders_once(
        self,
        partitions: Iterable[TopicPartition],
        build: Callable[[Connection, Mapping[TopicPartition, Leader]], tuple[Message, int]],
        read: Callable[[Any], Iterable[PartitionAnswer]],
        results: dict[TopicPartition, Any],
    ) -> ConnectionLost | BrokerError | None:
        by_node: dict[int, dict[TopicPartition, Leader]] = {}
        self.know_topics({partition.topic for partition in partitions})
        for partition in partitions:
            leader = self.leader(partition)
            by_node.setdefault(leader.node_id, {})[partition] = leader
        failure: ConnectionLost | BrokerError | None = None
        under_way: list[Pending] = []
        for node_id, leaders in by_node.items():
            try:
                connection = self.connection(node_id)
                under_way.append(connection.send(*build(connection, leaders)))
            except ConnectionLost as lost:
                failure = lost
        for pending in under_way:
            try:
                for partition, code, value in read(pending.response()):
                    if not code:
                        results[partition] = value
                    elif known_code(code).retriable:
                        failure = BrokerError(known_code(code), f"{partition}: {known_code(code).text}")
                    else:
                        require_success(code, str(partition))
            except ConnectionLost as lost:
                failure = lost
        return failure
