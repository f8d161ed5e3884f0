"""Translates librdkafka's error codes into the client errors of `core/errors.py`.

It must never know command-line options, exit codes or terminals.

Invariant: `str(error)` is one line that states what failed and why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.core.errors import (
    AccessDenied,
    BrokerUnreachable,
    ClientError,
    CommitRefused,
    CoordinatorLoading,
    GroupNotEmpty,
    InvalidClientSetting,
    ProducerFenced,
    TopicExists,
    TransactionAborted,
    UnknownGroup,
    UnknownTopic,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

Answer = TypeVar("Answer")

# librdkafka's own codes are negative; the broker's are Kafka's.
_LOCAL_INVALID_ARGUMENT: Final = -186
_UNREACHABLE: Final = frozenset({-195, -193, -187, -185, -192})  # transport, resolve, all brokers down, both timeouts
_UNKNOWN: Final = frozenset({-190, -188, 3})  # unknown partition, unknown topic, and the broker's code for both
_DENIED: Final = frozenset({29, 30, 31, 53, 58, -169})  # topic, group, cluster, transactional id, and both of SASL
_TOPIC_ALREADY_EXISTS: Final = 36
_COORDINATOR_LOAD_IN_PROGRESS: Final = 14
_GROUP_ID_NOT_FOUND: Final = 69
_NOT_EMPTY: Final = frozenset({68, 86})  # the group has members; one of them reads the topic
_PURGED: Final = frozenset({-151, -152})  # a record that was queued, or in flight, when its transaction was aborted
_PRODUCER_FENCED: Final = frozenset({-144, 90, 47})  # librdkafka's code, the broker's, the broker's older one
# Illegal generation, unknown member id, rebalance in progress, both member epochs of KIP-848, assignment lost.
_NOT_A_CURRENT_MEMBER: Final = frozenset({22, 25, 27, 110, 113, -142})


def translated(subject: str, call: Callable[[], Answer]) -> Answer:
    """Calls librdkafka; its exceptions are raised as ours. `subject` begins the message."""
    from confluent_kafka import KafkaException

    try:
        return call()
    except KafkaException as failure:
        raise from_kafka_error(failure.args[0], subject) from failure


def from_kafka_error(error: KafkaError, subject: str) -> ClientError:
    """`subject` names what was attempted and begins the message: "topic 'orders'", "a record"."""
    code = error.code()
    reason = " ".join(error.str().split()).rstrip(".")
    if error.txn_requires_abort():
        return TransactionAborted(f"{subject}: the transaction must be aborted ({reason})")
    if code in _PURGED:
        return TransactionAborted(
            f"{subject}: the record was discarded with its transaction or its producer ({reason})"
        )
    if code in _PRODUCER_FENCED:
        return ProducerFenced(f"{subject}: another producer has taken over this transactional.id ({reason})")
    if code in _UNREACHABLE:
        return BrokerUnreachable(f"{subject}: the broker did not respond ({reason})")
    if code in _DENIED:
        return AccessDenied(f"{subject}: {reason} ({error.name()})")
    if code in _UNKNOWN:
        return UnknownTopic(f"{subject} does not exist")
    if code == _TOPIC_ALREADY_EXISTS:
        return TopicExists(f"{subject} already exists")
    if code == _COORDINATOR_LOAD_IN_PROGRESS:
        return CoordinatorLoading(f"{subject}: the coordinator is still loading; try again in a moment")
    if code == _GROUP_ID_NOT_FOUND:
        return UnknownGroup(f"{subject} does not exist")
    if code in _NOT_EMPTY:
        return GroupNotEmpty(f"{subject} has active members; stop them first")
    if code in _NOT_A_CURRENT_MEMBER:
        return CommitRefused(f"{subject}: the group has rebalanced ({reason})")
    if code == _LOCAL_INVALID_ARGUMENT:
        return InvalidClientSetting(f"{subject}: {reason}")
    return ClientError(f"{subject}: {reason} ({error.name()})")
