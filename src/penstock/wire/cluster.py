"""Routes requests: to the leader of a partition, the coordinator of a group or transaction, or any broker.

Owns the connections (one per broker, and dedicated ones for long polls), the cached metadata, and the retry rule:
retriable errors and broken connections are retried with fresh metadata until the call's deadline. It must never know
what a request means.
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
from penstock.wire.errors import ConnectionLost, Right, require_success
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


class PartitionResult(NamedTuple):
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
        # Connections of streams; closed with the client if their owners have not done so.
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
        """A connection that the caller closes: a long poll would block later requests on a shared one."""
        connection = Connection(self._address(node_id), self.settings, self._tls)
        self._dedicated.add(connection)
        return connection

    def any_connection(self) -> Connection:
        """An open connection if there is one; otherwise tries all known brokers, then the bootstrap servers."""
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
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id} is not available")
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

    # Metadata

    def fetch_metadata(self, topics: Iterable[str] | None, *, allow_auto_topic_creation: bool) -> ClusterMetadata:
        """Requests metadata from one broker, once, and caches it."""
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
        """Raises a retriable BrokerError if the partition has no leader or does not exist."""
        topic = self._topic(partition.topic)
        found = topic.partitions.get(partition.partition)
        if found is None:
            self._topics.pop(partition.topic, None)
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{partition} does not exist: the topic has {len(topic.partitions)} partitions",
            )
        if found.leader_id == NO_LEADER or found.leader_id not in self._brokers:
            self._topics.pop(partition.topic, None)
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        return Leader(found.leader_id, found.leader_epoch, topic.topic_id)

    def refresh_topics(self, names: Iterable[str]) -> None:
        """Requests metadata of those topics that are not cached, or are older than `metadata.max.age.ms`."""
        now, age_max = time.monotonic(), self.settings.seconds("metadata.max.age.ms")
        stale = [name for name in names if name not in self._topics or now - self._topics[name][1] > age_max]
        if stale:
            self.fetch_metadata(stale, allow_auto_topic_creation=False)

    def _topic(self, name: str) -> TopicMetadata:
        self.refresh_topics([name])
        known = self._topics.get(name)
        if known is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{name}' does not exist")
        return known[0]

    def invalidate_topics(self, names: Iterable[str]) -> None:
        """Removes topics from the cache after an error, so that the next request finds their current leaders."""
        for name in names:
            self._topics.pop(name, None)

    # Requests with retries

    def ask_any(self, subject: str, attempt: Callable[[Connection], T], timeout_s: float | None = None) -> T:
        """Calls `attempt` with a connection; retries it on ConnectionLost and on retriable BrokerErrors."""
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
        return self.find_coordinator(kind, key) if node_id is None else node_id

    def find_coordinator(self, kind: CoordinatorKind, key: str) -> int:
        """Asks one broker, once."""
        connection = self.any_connection()
        version = connection.version_for(FindCoordinatorRequest, at_least=_FIND_MANY_SINCE)
        request = FindCoordinatorRequest(key_type=_KEY_TYPES[kind], coordinator_keys=[key])
        response: FindCoordinatorResponse = connection.ask(request, version)
        found = response.coordinators[0]
        # Finding a coordinator needs Describe, which these imply; what follows needs them.
        needed = Right("Read", "group", key) if kind == "group" else Right("Write", "transactional id", key)
        require_success(found.error_code, f"coordinator of {kind} '{key}'", found.error_message, needs=(needed,))
        self._brokers[found.node_id] = Address(found.host, found.port)
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    def ask_leaders(
        self,
        subject: str,
        partitions: Iterable[TopicPartition],
        build: Callable[[Connection, Mapping[TopicPartition, Leader]], tuple[Message, int]],
        read: Callable[[Any], Iterable[PartitionResult]],
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, Any]:
        """The value of every partition, from its leader: one request per broker, all in flight at the same time."""
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
                self.invalidate_topics({partition.topic for partition in waiting})
                if failure is None:
                    raise ProtocolError(f"{subject}: a broker omitted {len(waiting)} partitions from its response")
                retry.pause(failure)
        return results

    def _ask_leaders_once(
        self,
        partitions: Iterable[TopicPartition],
        build: Callable[[Connection, Mapping[TopicPartition, Leader]], tuple[Message, int]],
        read: Callable[[Any], Iterable[PartitionResult]],
        results: dict[TopicPartition, Any],
    ) -> ConnectionLost | BrokerError | None:
        by_node: dict[int, dict[TopicPartition, Leader]] = {}
        self.refresh_topics({partition.topic for partition in partitions})
        for partition in partitions:
            leader = self.leader(partition)
            by_node.setdefault(leader.node_id, {})[partition] = leader
        failure: ConnectionLost | BrokerError | None = None
        in_flight: list[Pending] = []
        for node_id, leaders in by_node.items():
            try:
                connection = self.connection(node_id)
                in_flight.append(connection.send(*build(connection, leaders)))
            except ConnectionLost as lost:
                failure = lost
        for pending in in_flight:
            try:
                for partition, code, value in read(pending.response()):
                    if not code:
                        results[partition] = value
                    elif known_code(code).retriable:
                        failure = BrokerError(known_code(code), f"{partition}: {known_code(code).text}")
                    else:
                        require_success(code, str(partition), needs=(Right("Describe", "topic", partition.topic),))
            except ConnectionLost as lost:
                failure = lost
        return failure
