"""Errors that every layer may raise or meet. What only one layer knows stays with that layer.

`ProtocolError` is a peer's fault: its bytes cannot mean anything, so its connection is closed. Answers that a
well-behaved peer must expect are `BrokerError`s (`protocol/error_codes.py`).
"""

from __future__ import annotations


class ProtocolError(Exception):
    """A peer sent bytes that break the protocol. The connection cannot go on."""


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
