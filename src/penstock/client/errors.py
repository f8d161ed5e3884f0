"""What can go wrong between a client and a broker, as few kinds as a caller can act upon.

Owns the translation of librdkafka's error codes into these kinds. It must never know of options, exit codes or
terminals.

Invariant: `str(error)` is one line that a person can act upon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class ClientError(Exception):
    """The broker refused, or something else failed for good."""


class BrokerUnreachable(ClientError):
    """No broker answered: nothing listens there, the name does not resolve, or the answer took too long."""


class UnknownTopic(ClientError):
    """The topic, or the partition of it, does not exist."""


class TopicExists(ClientError):
    """A topic of that name is already there."""


class UnknownGroup(ClientError):
    """No consumer group of that name."""


class GroupNotEmpty(ClientError):
    """The group has members, or members that read the topic, and what was asked for wants it to have none."""


class InvalidClientSetting(ClientError):
    """No such setting, or not that value of it."""


class BufferFull(ClientError):
    """`buffer.memory` stayed full for `max.block.ms`: records are sent more quickly than the broker takes them."""


class SerializationError(ClientError):
    """A key or a value could not be turned into bytes; nothing was sent."""


class DeserializationError(ClientError):
    """A key or a value could not be read. The consumer stays before this record; `seek` goes past it."""

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class NoOffset(ClientError):
    """A partition has no position and `auto.offset.reset` is `none`. `seek` gives it one."""

    def __init__(self, message: str, *, topic: str, partition: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition


class CommitRefused(ClientError):
    """The group has moved on: the partitions are, or are about to be, somebody else's. Nothing was committed."""


class TransactionAborted(ClientError):
    """The transaction cannot commit: it was aborted, or is when its block is left. It may be done again."""


class TransactionOutcomeUnknown(ClientError):
    """No answer to a commit in time. A new producer with the same `transactional.id` settles it, either way."""


class ProducerFenced(ClientError):
    """Another producer took over this `transactional.id`. This one can do nothing more."""


# librdkafka's own codes are negative; the broker's are Kafka's.
_LOCAL_INVALID_ARGUMENT: Final = -186
_UNREACHABLE: Final = frozenset({-195, -193, -187, -185, -192})  # transport, resolve, all brokers down, both timeouts
_UNKNOWN: Final = frozenset({-190, -188, 3})  # partition, topic, and the broker's word for both
_TOPIC_ALREADY_EXISTS: Final = 36
_GROUP_ID_NOT_FOUND: Final = 69
_NOT_EMPTY: Final = frozenset({68, 86})  # the group has members; one of them reads the topic
_PURGED: Final = frozenset({-151, -152})  # a record that was waiting, or under way, when its transaction was aborted
_PRODUCER_FENCED: Final = frozenset({-144, 90, 47})  # librdkafka's word, the broker's, the broker's older one
# Illegal generation, unknown member id, rebalance in progress, both member epochs of KIP-848, assignment lost.
_GROUP_MOVED_ON: Final = frozenset({22, 25, 27, 110, 113, -142})


def from_kafka_error(error: KafkaError, subject: str) -> ClientError:
    """`subject` says what was attempted, as the beginning of a sentence: "topic 'orders'", "a record"."""
    code = error.code()
    reason = " ".join(error.str().split()).rstrip(".")
    if error.txn_requires_abort():
        return TransactionAborted(f"{subject}: the transaction has to be aborted ({reason})")
    if code in _PURGED:
        return TransactionAborted(f"{subject}: the record was given up with its transaction or its producer ({reason})")
    if code in _PRODUCER_FENCED:
        return ProducerFenced(f"{subject}: another producer has taken over this transactional.id ({reason})")
    if code in _UNREACHABLE:
        return BrokerUnreachable(f"{subject}: no answer from the broker ({reason})")
    if code in _UNKNOWN:
        return UnknownTopic(f"{subject} does not exist")
    if code == _TOPIC_ALREADY_EXISTS:
        return TopicExists(f"{subject} exists already")
    if code == _GROUP_ID_NOT_FOUND:
        return UnknownGroup(f"{subject} does not exist")
    if code in _NOT_EMPTY:
        return GroupNotEmpty(f"{subject} has active members; stop them first")
    if code in _GROUP_MOVED_ON:
        return CommitRefused(f"{subject}: the group has rebalanced meanwhile ({reason})")
    if code == _LOCAL_INVALID_ARGUMENT:
        return InvalidClientSetting(f"{subject}: {reason}")
    return ClientError(f"{subject}: {reason} ({error.name()})")
