"""The requests of a transaction, each as a function of the transactional id and the producer's identity.

So many processes can share one transaction: one begins it (`init_producer_id`), all produce with its identity, one ends
it. It must never know batches.

With the feature `transaction.version` at 2 (KIP-890), the first batch that is produced to a partition adds it to the
transaction, and the end of a transaction returns a new epoch. Below 2, partitions and offsets are added explicitly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.core.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, OffsetAndMetadata, ProducerIdentity, TopicPartition
from penstock.protocol.definitions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.definitions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.definitions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from penstock.protocol.definitions.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.definitions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection
from penstock.wire.errors import Right, require_success
from penstock.wire.offsets import require_partition_success

TRANSACTION_VERSION_2: Final = 2
_FEATURE: Final = "transaction.version"
_FOR_CLIENTS_UNTIL: Final = 3  # later versions of AddPartitionsToTxn are for brokers only
_EXPLICIT_OFFSETS_UNTIL: Final = 4  # TxnOffsetCommit adds the group to the transaction from version 5 on
_SAME_EPOCH_UNTIL: Final = 4  # EndTxn returns a new epoch from version 5 on
_CURRENT_IDENTITY_SINCE: Final = 3
NO_PRODUCER: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    state: str
    """Kafka's names: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort."""
    producer: ProducerIdentity
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


def transaction_version(cluster: Cluster, timeout_s: float | None) -> int:
    return cluster.ask_any("cluster features", lambda connection: connection.features.get(_FEATURE, 0), timeout_s)


def _writes(transactional_id: str) -> tuple[Right]:
    return (Right("Write", "transactional id", transactional_id),)


def init_producer_id(
    cluster: Cluster,
    transactional_id: str | None,
    timeout_ms: int,
    current: ProducerIdentity | None,
    timeout_s: float | None,
) -> ProducerIdentity:
    producer_id, epoch = current or NO_PRODUCER
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    subject = "a producer id" if transactional_id is None else f"transactional id '{transactional_id}'"

    def attempt(connection: Connection) -> ProducerIdentity:
        at_least = 0 if current is None else _CURRENT_IDENTITY_SINCE
        response: InitProducerIdResponse = connection.ask(
            request, connection.version_for(InitProducerIdRequest, at_least=at_least)
        )
        require_success(response.error_code, subject, needs=_writes(transactional_id or ""))
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    if transactional_id is None:
        return cluster.ask_any(subject, attempt, timeout_s)
    return cluster.ask_coordinator("transaction", transactional_id, attempt, timeout_s)


def add_partitions_to_txn(
    cluster: Cluster,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Iterable[TopicPartition],
    timeout_s: float | None,
) -> None:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in sorted(partitions):
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=list(topics.values()),
    )

    def attempt(connection: Connection) -> None:
        version = connection.version_for(AddPartitionsToTxnRequest, at_most=_FOR_CLIENTS_UNTIL)
        response: AddPartitionsToTxnResponse = connection.ask(request, version)
        # If one partition is refused, the others are "not attempted": report the refusal.
        answers = [
            (answer.partition_error_code, TopicPartition(topic.name, answer.partition_index))
            for topic in response.results_by_topic_v3_and_below
            for answer in topic.results_by_partition
        ]
        for code, partition in sorted(answers, key=lambda each: each[0] == ErrorCode.OPERATION_NOT_ATTEMPTED):
            needs = (*_writes(transactional_id), Right("Write", "topic", partition.topic))
            require_success(code, f"transactional id '{transactional_id}', {partition}", needs=needs)

    cluster.ask_coordinator("transaction", transactional_id, attempt, timeout_s)


def add_offsets_to_txn(
    cluster: Cluster, transactional_id: str, producer: ProducerIdentity, group: str, timeout_s: float | None
) -> None:
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )

    def attempt(connection: Connection) -> None:
        response: AddOffsetsToTxnResponse = connection.ask(request, connection.version_for(AddOffsetsToTxnRequest))
        needs = (*_writes(transactional_id), Right("Read", "group", group))
        require_success(response.error_code, f"transactional id '{transactional_id}', group '{group}'", needs=needs)

    cluster.ask_coordinator("transaction", transactional_id, attempt, timeout_s)


def txn_offset_commit(
    cluster: Cluster,
    transactional_id: str,
    producer: ProducerIdentity,
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    timeout_s: float | None,
) -> None:
    """Commits offsets of the group in the transaction, and adds the group to it where the broker requires it."""
    is_explicit = transaction_version(cluster, timeout_s) < TRANSACTION_VERSION_2
    if is_explicit:
        add_offsets_to_txn(cluster, transactional_id, producer, group, timeout_s)
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, index), (offset, metadata) in offsets.items():
        topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name)).partitions.append(
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        )
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=list(topics.values()),
    )

    def attempt(connection: Connection) -> None:
        version = connection.version_for(
            TxnOffsetCommitRequest, at_most=_EXPLICIT_OFFSETS_UNTIL if is_explicit else None
        )
        response: TxnOffsetCommitResponse = connection.ask(request, version)
        needs = (*_writes(transactional_id), Right("Read", "group", group))
        require_partition_success(response, f"transactional id '{transactional_id}', group '{group}'", needs)

    cluster.ask_coordinator("group", group, attempt, timeout_s)


def end_txn(
    cluster: Cluster, transactional_id: str, producer: ProducerIdentity, *, commit: bool, timeout_s: float | None
) -> ProducerIdentity:
    """Returns the identity for the next transaction: new with transaction.version 2, otherwise unchanged."""
    same_epoch = transaction_version(cluster, timeout_s) < TRANSACTION_VERSION_2
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )

    def attempt(connection: Connection) -> ProducerIdentity:
        version = connection.version_for(EndTxnRequest, at_most=_SAME_EPOCH_UNTIL if same_epoch else None)
        response: EndTxnResponse = connection.ask(request, version)
        require_success(response.error_code, f"transactional id '{transactional_id}'", needs=_writes(transactional_id))
        if response.producer_id < 0:
            return producer
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    return cluster.ask_coordinator("transaction", transactional_id, attempt, timeout_s)


def describe_transaction(
    cluster: Cluster, transactional_id: str, timeout_s: float | None
) -> TransactionDescription | None:
    """None if the transactional id is unknown."""

    def attempt(connection: Connection) -> TransactionDescription | None:
        response: DescribeTransactionsResponse = connection.ask(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            connection.version_for(DescribeTransactionsRequest),
        )
        found = response.transaction_states[0]
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        require_success(found.error_code, f"transactional id '{transactional_id}'")
        return TransactionDescription(
            state=found.transaction_state,
            producer=ProducerIdentity(found.producer_id, found.producer_epoch),
            timeout_ms=found.transaction_timeout_ms,
            start_time_ms=found.transaction_start_time_ms,
            partitions=tuple(
                TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions
            ),
        )

    return cluster.ask_coordinator("transaction", transactional_id, attempt, timeout_s)
