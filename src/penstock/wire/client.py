"""A small synchronous Kafka client on the broker's own codec, for what librdkafka has no way to do.

That is: record batches as bytes, in and out, and one transaction shared by many processes. Everything else belongs to
`Producer`, `Consumer` and `Admin`. It runs against Penstock and Apache Kafka alike (3.0 and newer).

    from penstock.wire.client import OffsetAndMetadata, TopicPartition, WireClient

    settings = {"bootstrap.servers": "localhost:9092"}        # Kafka's names; pickle these, not the client
    orders = TopicPartition("orders", 0)

    with WireClient(settings) as client:
        end = client.list_offsets({orders: "latest"})[orders].offset
        with client.fetch_ahead(orders, 0, end) as answers:
            for fetched in answers:
                decode(fetched.records)                       # a view, valid until the next fetch but one

        # One process begins a transaction, any number of them produce in its name, one ends it.
        producer = client.init_producer_id("copy-orders")
        sender = client.sender(producer=producer, transactional_id="copy-orders")
        sender.send(TopicPartition("copies", 0), batch)
        sender.flush()
        client.txn_offset_commit("copy-orders", producer, "copier", {orders: OffsetAndMetadata(end)})
        producer = client.end_txn("copy-orders", producer, commit=True)

Calls return when the answer is there. What a broker calls retriable, and connections that break, are tried again until
`default.api.timeout.ms`, or the `timeout_s` that a call is given; then it is BrokerUnreachable or the last BrokerError.
That bounds the trying; a single request still has its `request.timeout.ms`. What will not change by itself is raised
at once: a refused password, a certificate that is not trusted, a fenced producer (ProducerFenced).

Invariants: one thread at a time; no secret is in a `repr`, a log or an exception; no topic is created that nobody asked
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from penstock.core.ids import OffsetAndMetadata, ProducerIdentity, TopicPartition
from penstock.core.isolation import IsolationLevel
from penstock.wire import offsets as offset_requests
from penstock.wire import transactions as transaction_requests
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Pending
from penstock.wire.fetch import Fetched, FetchOptions, FetchStream, ask, fetch
from penstock.wire.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from penstock.wire.offsets import ListedOffset, OffsetAt
from penstock.wire.produce import DEFAULT_REQUEST_BYTES, Batch, BatchSender, Produced
from penstock.wire.settings import WIRE_SETTING_NAMES, WireSettings
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
    """Connects when it is first asked for something; a context manager that closes its connections."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` in Kafka's names, those of WIRE_SETTING_NAMES; anything else is InvalidClientSetting."""
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
        """Streams of this client end with it."""
        self._cluster.close()

    # The cluster

    def metadata(
        self,
        topics: Iterable[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        timeout_s: float | None = None,
    ) -> ClusterMetadata:
        """Fresh from a broker. None asks for all topics; one that does not exist is not in the answer."""
        wanted = None if topics is None else list(topics)
        return self._cluster.ask_any(
            "metadata of the cluster",
            lambda _: self._cluster.fetch_metadata(wanted, allow_auto_topic_creation=allow_auto_topic_creation),
            timeout_s,
        )

    def transaction_version(self, *, timeout_s: float | None = None) -> int:
        """The finalized feature: from 2 on, partitions join a transaction by being produced to (KIP-890)."""
        return transaction_requests.transaction_version(self._cluster, timeout_s)

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
        """What the group has committed, of all partitions or of these; those without an offset are left out.

        `require_stable` waits for open transactions that hold offsets of the group.
        """
        return offset_requests.fetch_committed(
            self._cluster, group, partitions, require_stable=require_stable, timeout_s=timeout_s
        )

    def offset_commit(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_s: float | None = None
    ) -> None:
        """For a group that nobody is a member of; it is refused (UNKNOWN_MEMBER_ID) where somebody is."""
        offset_requests.commit_offsets(self._cluster, group, offsets, timeout_s)

    # Records

    def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        options: FetchOptions = FetchOptions(),  # noqa: B008 (a tuple does not change)
        *,
        timeout_s: float | None = None,
        asked: Pending | None = None,
    ) -> Fetched:
        """One answer: what there is from `offset` on, possibly nothing after `max_wait_ms`."""
        return fetch(self._cluster, partition, offset, options, timeout_s, asked)

    def ask(self, partition: TopicPartition, offset: int, options: FetchOptions) -> Pending | None:
        """A fetch that is sent now; `fetch(..., asked=...)` of the same partition, offset and options waits for it."""
        return ask(self._cluster, partition, offset, options)

    def fetch_ahead(
        self,
        partition: TopicPartition,
        start_offset: int,
        end_offset: int | None = None,
        options: FetchOptions = FetchOptions(),  # noqa: B008 (a tuple does not change)
        *,
        timeout_s: float | None = None,
    ) -> FetchStream:
        """Answers from `start_offset` until `end_offset` is reached; the next one is under way while one is used."""
        return FetchStream(self._cluster, partition, start_offset, end_offset, options, timeout_s)

    def record_watch(self, *, isolation_level: IsolationLevel = "read_uncommitted") -> RecordWatch:
        """Waits for records in many partitions at once, without reading them."""
        return RecordWatch(self._cluster, isolation_level)

    def produce(
        self, batches: Mapping[TopicPartition, Batch], *, acks: int = -1, timeout_s: float | None = None
    ) -> dict[TopicPartition, Produced]:
        """One encoded batch per partition, as it is. Without a producer's name in it, a retry may write it twice."""
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
        """For many batches: several requests in flight, and with a `producer` every batch exactly once.

        With a `transactional_id` the batches belong to the transaction that is open, or opens with them; the sender is
        for that one transaction. `first_sequences` is for an epoch that has been used before: see BatchSender.
        """
        add_partitions = None
        if transactional_id is not None:
            if producer is None:
                raise ValueError("a transactional sender needs the producer that init_producer_id gave")
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
        """With a transactional id: fences whoever had it, and aborts what they left open.

        With `current` only its owner may do so; anybody else is fenced. Without an id: an idempotent producer's name.
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
        """`sender` does it by itself where it is needed."""
        transaction_requests.add_partitions_to_txn(self._cluster, transactional_id, producer, partitions, timeout_s)

    def add_offsets_to_txn(
        self, transactional_id: str, producer: ProducerIdentity, group: str, *, timeout_s: float | None = None
    ) -> None:
        """`txn_offset_commit` does it by itself where it is needed."""
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
        """Offsets that become the group's if the transaction commits."""
        transaction_requests.txn_offset_commit(self._cluster, transactional_id, producer, group, offsets, timeout_s)

    def end_txn(
        self, transactional_id: str, producer: ProducerIdentity, *, commit: bool, timeout_s: float | None = None
    ) -> ProducerIdentity:
        """The identity to go on with, which may be a new one."""
        return transaction_requests.end_txn(
            self._cluster, transactional_id, producer, commit=commit, timeout_s=timeout_s
        )

    def describe_transaction(
        self, transactional_id: str, *, timeout_s: float | None = None
    ) -> TransactionDescription | None:
        """None when nobody has used the transactional id."""
        return transaction_requests.describe_transaction(self._cluster, transactional_id, timeout_s)
