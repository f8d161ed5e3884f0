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


class InvalidClientSetting(ClientError):
    """librdkafka does not know a property, or not that value of it."""


# librdkafka's own codes are negative; the broker's are Kafka's.
_LOCAL_INVALID_ARGUMENT: Final = -186
_UNREACHABLE: Final = frozenset({-195, -193, -187, -185, -192})  # transport, resolve, all brokers down, both timeouts
_UNKNOWN: Final = frozenset({-190, -188, 3})  # partition, topic, and the broker's word for both
_TOPIC_ALREADY_EXISTS: Final = 36


def from_kafka_error(error: KafkaError, subject: str) -> ClientError:
    """`subject` says what was attempted, as the beginning of a sentence: "topic 'orders'", "a record"."""
    code = error.code()
    reason = " ".join(error.str().split()).rstrip(".")
    if code in _UNREACHABLE:
        return BrokerUnreachable(f"{subject}: no answer from the broker ({reason})")
    if code in _UNKNOWN:
        return UnknownTopic(f"{subject} does not exist")
    if code == _TOPIC_ALREADY_EXISTS:
        return TopicExists(f"{subject} exists already")
    if code == _LOCAL_INVALID_ARGUMENT:
        return InvalidClientSetting(f"{subject}: {reason}")
    return ClientError(f"{subject}: {reason} ({error.name()})")
