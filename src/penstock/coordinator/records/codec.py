"""Records of the coordinators' internal topics: keys and values in Kafka's format.

A key is the number of its record type followed by the key message; a value is its version followed by the value
message; a record without a value is a tombstone. The other modules of this package define the record types.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.core.errors import ProtocolError
from penstock.protocol.codec import reader, writer
from penstock.protocol.schema import Message

_NUMBER: Final = Struct(">h")
# All keys have this version: a changed key format would make compaction keep the old and the new record.
_KEY_VERSION: Final = 0

K = TypeVar("K", bound=Message)
V = TypeVar("V", bound=Message)


class CoordinatorRecord(NamedTuple):
    """One record to append; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[K, V]):
    """A record type: its number, its messages, and the version in which values are written."""

    number: int
    key_class: type[K]
    value_class: type[V]
    value_version: int

    def record(self, key: K, value: V, version: int | None = None) -> CoordinatorRecord:
        """Writes the value in `value_version` unless another version is given."""
        version = self.value_version if version is None else version
        out = bytearray(_NUMBER.pack(version))
        writer(self.value_class, version)(out, value)
        return CoordinatorRecord(self.encoded_key(key), bytes(out))

    def tombstone(self, key: K) -> CoordinatorRecord:
        return CoordinatorRecord(self.encoded_key(key), None)

    def encoded_key(self, key: K) -> bytes:
        out = bytearray(_NUMBER.pack(self.number))
        writer(self.key_class, _KEY_VERSION)(out, key)
        return bytes(out)

    def read_key(self, key: bytes) -> K:
        message, _ = reader(self.key_class, _KEY_VERSION)(key, _NUMBER.size, len(key))
        return message

    def read_value(self, value: bytes) -> V:
        """The value, in the version in which it was written; an unknown version raises ProtocolError."""
        version = _number(value)
        first, last = self.value_class.VERSIONS
        if not first <= version <= last:
            raise ProtocolError(f"{self.value_class.__name__} version {version} is not supported")
        message, _ = reader(self.value_class, version)(value, _NUMBER.size, len(value))
        return message


def kind_number(key: bytes) -> int:
    """The number of the record type of a key."""
    return _number(key)


def _number(content: bytes) -> int:
    if len(content) < _NUMBER.size:
        raise ProtocolError(f"a coordinator's record has a key or value of {len(content)} bytes")
    number: int = _NUMBER.unpack_from(content)[0]
    return number
