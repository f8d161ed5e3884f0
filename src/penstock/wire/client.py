"""A small synchronous Kafka client on our own codec, for what librdkafka does not support.

That is: reading and writing record batches as bytes, and one transaction shared by many processes. Use `Producer`,
`Consumer` and `Admin` for everything else. It works with Penstock and with Apache Kafka 3.0 or newer.

    from penstock.wire.client import OffsetAndMetadata, TopicPartition, WireClient

    settings = {"bootstrap.servers": "localhost:9092"}        # Kafka's setting names; pickle these, not the client
    orders = TopicPartition("orders", 0)

    with WireClient(settings) as client:
        end = client.list_offsets({orders: "latest"})[orders].offset
        with client.fetch_ahead(orders, 0, end) as stream:
            for fetched in stream:
                decode(fetched.records)                       # a view, valid until the second next fetch

        # One process begins a transaction, any number of processes produce in it, one ends it.
        producer = client.init_producer_id("copy-orders")
        sender = client.sender(producer=producer, transactional_id="copy-orders")
        sender.send(TopicPartition("copies", 0), batch)
        sender.flush()
        client.txn_offset_commit("copy-orders", producer, "copier", {orders: OffsetAndMetadata(end)})
        producer = client.end_txn("copy-orders", producer, commit=True)

Calls block until the response arrives. Retriable errors and broken connections are retried until
`default.api.timeout.ms`, or the call's `timeout_s`; then the call raises BrokerUnreachable or the last BrokerError.
This limits the retries; each request still has its own `request.timeout.ms`. Permanent errors are raised immediately:
refused credentials, an untrusted certificate, a fenced producer (ProducerFenced).

Invariants: one thread at a time; no secret appears in a `repr`, a log or an exception; no call creates a topic unless
it was asked to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from penstock.core.acls import AclBinding
from penstock.core.credentials import ScramMechanism
from penstock.core.ids import OffsetAndMetadata, ProducerIdentity, TopicPartition
from penstock.core.isolation import IsolationLevel
from penstock.core.quotas import QuotaEntity
from penstock.protocol.error_codes import BrokerError
from penstock.security.acl_filters import AclFilter
from penstock.wire import offsets as offset_requests
from penstock.wire import replicas as replica_requests
from penstock.wire import transactions as transaction_requests
from penstock.wire.access_control import describe_acls, describe_users
from penstock.wire.cluster import Cluster
from penstock.wire.configs import topic_config
from penstock.wire.connection import Pending
from penstock.wire.fetch import Fetched, FetchOptions, FetchStream, fetch, send_fetch
from penstock.wire.groups import group_states
from penstock.wire.log_dirs import partition_sizes
from penstock.wire.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from penstock.wire.offsets import ListedOffset, OffsetAt
from penstock.wire.produce import DEFAULT_REQUEST_BYTES, Batch, BatchSender, Produced
from penstock.wire.quotas import alter_client_quotas, client_quotas
from penstock.wire.replicas import ClusterDescription, ElectionType, PartitionReplicas, Reassignment
from penstock.wire.settings import WIRE_SETTING_NAMES, WireSettings
from penstock.wire.topics import create_topic
from penstock.wire.transactions import TRANSACTION_VERSION_2, TransactionDescription
from penstock.wire.watch import RecordWatch

__all__ = [
    "WIRE_SETTING_NAMES",
    "Batch",
    "BatchSender",
    "ClusterMetadata",
    "FetchOptions",
    "FetchStream",
    "Fetched",
    "ListedOffset",
    "OffsetAndMetadata",
    "PartitionMetadata",
    "Pending",
    "Produced",
    "ProducerIdentity",
    "RecordWatch",
    "TopicMetadata",
    "TopicPartition",
    "TransactionDescription",
    "WireClient",
]


class WireClient:
    """Connects on first use. A context manager that closes its connections."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` uses Kafka's names, those of WIRE_SETTING_NAMES; others raise InvalidClientSetting."""
        self._cluster = Cluster(WireSettings.parse(settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"WireClient({self._cluster.settings!r})"

    def close(self) -> None:
        """Closes all connections, including those of the client's streams."""
        self._cluster.close()

    # The cluster

    def metadata(
        self,
        topics: Iterable[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        timeout_s: float | None = None,
    ) -> ClusterMetadata:
        """Current metadata from a broker. None requests all topics; topics that do not exist are left out."""
        wanted = None if topics is None else list(topics)
        return self._cluster.ask_any(
            "cluster metadata",
            lambda _: self._cluster.fetch_metadata(wanted, allow_auto_topic_creation=allow_auto_topic_creation),
            timeout_s,
        )

    def group_coordinator(self, group: str, *, timeout_s: float | None = None) -> int:
        """The broker that coordinates the group; it is waited for while there is none."""
        return self._cluster.ask_any(
            f"coordinator of group '{group}'", lambda _: self._cluster.find_coordinator("group", group), timeout_s
        )

    def transaction_version(self, *, timeout_s: float | None = None) -> int:
        """The finalized feature level: from 2 on, Produce adds a partition to the transaction (KIP-890)."""
        return transaction_requests.transaction_version(self._cluster, timeout_s)

    def topic_config(self, topic: str, name: str, *, timeout_s: float | None = None) -> str | None:
        """The value of one setting of a topic, its default included; None if the broker does not say."""
        return topic_config(self._cluster, topic, name, timeout_s)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> bool:
        """Whether it was created: False if it exists. -1 takes the broker's default (KIP-464)."""
        return create_topic(self._cluster, name, partitions, replication_factor, configs or {}, timeout_s)

    def group_states(self, *, timeout_s: float | None = None) -> dict[str, str]:
        """The state of every consumer group, as its broker names it."""
        return group_states(self._cluster, timeout_s)

    def describe_acls(self, wanted: AclFilter, *, timeout_s: float | None = None) -> list[AclBinding]:
        """The ACLs that the filter matches. BrokerError: the client may not see them, or the broker has none."""
        return describe_acls(self._cluster, wanted, timeout_s)

    def describe_users(self, *, timeout_s: float | None = None) -> dict[str, dict[ScramMechanism, int]]:
        """The SCRAM users: iterations by mechanism. BrokerError: the client may not see them."""
        return describe_users(self._cluster, timeout_s)

    def partition_sizes(self, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """The bytes that each partition takes on disk, for all topics."""
        return partition_sizes(self._cluster, timeout_s)

    def client_quotas(self, *, timeout_s: float | None = None) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas that are set, by whom they are for."""
        return client_quotas(self._cluster, timeout_s)

    def alter_client_quotas(
        self,
        entity: QuotaEntity,
        changes: Mapping[str, float],
        removals: Iterable[str] = (),
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Sets and removes quotas of one entity: all of them, or none. Raises BrokerError."""
        alter_client_quotas(self._cluster, entity, changes, removals, timeout_s)

    # Brokers and replicas

    def describe_cluster(self, *, timeout_s: float | None = None) -> ClusterDescription:
        """The registered brokers and the controller."""
        return replica_requests.describe_cluster(self._cluster, timeout_s)

    def describe_replicas(
        self, topics: Iterable[str] = (), *, timeout_s: float | None = None
    ) -> dict[TopicPartition, PartitionReplicas]:
        """The replica sets of these topics, or of all. UnsupportedVersion: the broker is older than KIP-966."""
        return replica_requests.describe_replicas(self._cluster, topics, timeout_s)

    def elect_leaders(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, BrokerError | None]:
        """The outcome of each partition; with None, of those in which an election was needed."""
        return replica_requests.elect_leaders(self._cluster, kind, partitions, timeout_s)

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, BrokerError | None]:
        """Starts reassignments to these replicas; None cancels the one in progress. The outcome of each."""
        return replica_requests.alter_reassignments(self._cluster, targets, timeout_s)

    def list_reassignments(self, *, timeout_s: float | None = None) -> dict[TopicPartition, Reassignment]:
        return replica_requests.list_reassignments(self._cluster, timeout_s)

    def unregister_broker(self, broker_id: int, *, timeout_s: float | None = None) -> None:
        replica_requests.unregister_broker(self._cluster, broker_id, timeout_s)

    # Offsets

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetAt],
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """One request per broker. With read_committed, `latest` is the last stable offset."""
        return offset_requests.list_offsets(self._cluster, wanted, isolation_level, timeout_s)

    def offset_fetch(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = True,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets, of all partitions or of these; those without an offset are left out.

        `require_stable` waits for open transactions that contain offsets of the group.
        """
        return offset_requests.fetch_committed(
            self._cluster, group, partitions, require_stable=require_stable, timeout_s=timeout_s
        )

    def offset_commit(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_s: float | None = None
    ) -> None:
        """Commits offsets of a group without members; the broker refuses (UNKNOWN_MEMBER_ID) while it has any."""
        offset_requests.commit_offsets(self._cluster, group, offsets, timeout_s)

    # Records

    def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        options: FetchOptions = FetchOptions(),  # noqa: B008 (a tuple does not change)
        *,
        timeout_s: float | None = None,
        sent: Pending | None = None,
    ) -> Fetched:
        """One fetch: the available batches from `offset` on, or none after `max_wait_ms`."""
        return fetch(self._cluster, partition, offset, options, timeout_s, sent)

    def send_fetch(self, partition: TopicPartition, offset: int, options: FetchOptions) -> Pending | None:
        """Sends a fetch; `fetch(..., sent=...)` with the same partition, offset and options waits for its response."""
        return send_fetch(self._cluster, partition, offset, options)

    def fetch_ahead(
        self,
        partition: TopicPartition,
        start_offset: int,
        end_offset: int | None = None,
        options: FetchOptions = FetchOptions(),  # noqa: B008 (a tuple does not change)
        *,
        timeout_s: float | None = None,
    ) -> FetchStream:
        """Reads from `start_offset` to `end_offset`, and sends the next fetch before it returns the current one."""
        return FetchStream(self._cluster, partition, start_offset, end_offset, options, timeout_s)

    def record_watch(self, *, isolation_level: IsolationLevel = "read_uncommitted") -> RecordWatch:
        """Waits for new records in many partitions at once, without reading them."""
        return RecordWatch(self._cluster, isolation_level)

    def produce(
        self, batches: Mapping[TopicPartition, Batch], *, acks: int = -1, timeout_s: float | None = None
    ) -> dict[TopicPartition, Produced]:
        """Writes one encoded batch per partition, unchanged. A retry may duplicate a batch without a producer id."""
        sender = BatchSender(self._cluster, acks=acks, timeout_s=timeout_s)
        for partition, batch in batches.items():
            sender.send(partition, batch)
        return {partition: produced[0] for partition, produced in sender.flush().items()}

    def sender(
        self,
        *,
        producer: ProducerIdentity | None = None,
        first_sequences: Mapping[TopicPartition, int] | None = None,
        transactional_id: str | None = None,
        acks: int = -1,
        request_bytes: int = DEFAULT_REQUEST_BYTES,
        timeout_s: float | None = None,
    ) -> BatchSender:
        """Sends many batches with several requests in flight; with a `producer`, idempotently.

        With a `transactional_id` the batches belong to the current transaction, and the sender is for that transaction
        only. `first_sequences` is for an epoch that has been used before: see BatchSender.
        """
        add_partitions = None
        if transactional_id is not None:
            if producer is None:
                raise ValueError("a transactional sender requires the producer that init_producer_id returned")
            if self.transaction_version(timeout_s=timeout_s) < TRANSACTION_VERSION_2:
                add_partitions = partial(self.add_partitions_to_txn, transactional_id, producer, timeout_s=timeout_s)
        return BatchSender(
            self._cluster,
            acks=acks,
            producer=producer,
            first_sequences=first_sequences,
            transactional_id=transactional_id,
            add_partitions=add_partitions,
            request_bytes=request_bytes,
            timeout_s=timeout_s,
        )

    # Transactions

    def init_producer_id(
        self,
        transactional_id: str | None = None,
        *,
        transaction_timeout_ms: int = 60_000,
        current: ProducerIdentity | None = None,
        timeout_s: float | None = None,
    ) -> ProducerIdentity:
        """With a transactional id: fences its earlier producers and aborts their open transaction.

        With `current`, the broker fences the caller unless it is the current producer. Without an id: an identity for
        an idempotent producer.
        """
        return transaction_requests.init_producer_id(
            self._cluster, transactional_id, transaction_timeout_ms, current, timeout_s
        )

    def add_partitions_to_txn(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """`sender` calls it where the broker requires it."""
        transaction_requests.add_partitions_to_txn(self._cluster, transactional_id, producer, partitions, timeout_s)

    def add_offsets_to_txn(
        self, transactional_id: str, producer: ProducerIdentity, group: str, *, timeout_s: float | None = None
    ) -> None:
        """`txn_offset_commit` calls it where the broker requires it."""
        transaction_requests.add_offsets_to_txn(self._cluster, transactional_id, producer, group, timeout_s)

    def txn_offset_commit(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Commits offsets of the group as part of the transaction."""
        transaction_requests.txn_offset_commit(self._cluster, transactional_id, producer, group, offsets, timeout_s)

    def end_txn(
        self, transactional_id: str, producer: ProducerIdentity, *, commit: bool, timeout_s: float | None = None
    ) -> ProducerIdentity:
        """Ends the transaction. Returns the identity for the next one, which may be new."""
        return transaction_requests.end_txn(
            self._cluster, transactional_id, producer, commit=commit, timeout_s=timeout_s
        )

    def describe_transaction(
        self, transactional_id: str, *, timeout_s: float | None = None
    ) -> TransactionDescription | None:
        """None if the transactional id is unknown."""
        return transaction_requests.describe_transaction(self._cluster, transactional_id, timeout_s)
