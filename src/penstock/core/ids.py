"""Names for the plain values that travel through every layer, so that a type checker tells an offset from an epoch.

NewTypes cost nothing at run time, and named tuples are made in a third of a dataclass's time: one is made for every
partition of a request. The one thing here with behaviour is the text form of ids: Kafka writes its 128-bit
ids as 22 characters of URL-safe base64, in `meta.properties`, in tools and in logs, while messages carry 16 raw bytes.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple, NewType

TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)
PartitionIndex = NewType("PartitionIndex", int)
BrokerId = NewType("BrokerId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
GroupId = NewType("GroupId", str)
TransactionalId = NewType("TransactionalId", str)

UUID_BYTES: Final = 16
ZERO_TOPIC_ID: Final = TopicId(bytes(UUID_BYTES))
NO_LEADER: Final = BrokerId(-1)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
PRODUCER_EPOCH_MAX: Final = 0x7FFF


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic '{self.topic}' partition {self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id: unlike a name, the id never means a later topic of the same name."""

    topic_id: bytes
    partition: int


class ProducerIdentity(NamedTuple):
    """What InitProducerId returns: an epoch fences every earlier one of the same producer id."""

    producer_id: int
    epoch: int


class OffsetAndMetadata(NamedTuple):
    """A group's position in a partition as clients commit and fetch it; `offset` is the next one to read."""

    offset: int
    metadata: str = ""


def uuid_text(raw: bytes) -> str:
    """Sixteen bytes as Kafka's 22 characters."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The reverse of `uuid_text`. Raises ValueError for anything that `uuid_text` would not have written."""
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"==")
    except ValueError:
        raw = b""
    if len(raw) != UUID_BYTES or uuid_text(raw) != text:
        raise ValueError(f"{text!r} is not a 128-bit id in URL-safe base64 (22 characters)")
    return raw
