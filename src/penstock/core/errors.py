"""Errors that every layer may raise or meet, and the form in which an error crosses a process or Spark.

Each class names a condition of `core/error_table.py`, which decides exit codes and retries. Spark carries an exception
of its Python processes as the text of a traceback, so an error puts its marker into every traceback, as a note:

    penstock.core.errors.BrokerUnreachable: offsets: no broker answered in time
    [PENSTOCK_BROKER_UNREACHABLE] {"message": "offsets: no broker answered in time"}

`find_error` is the only parser of markers. Errors that only one layer raises are defined in that layer.

Invariant: nothing depends on the name or the module of a class. A marker is one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from penstock.core.error_table import ERRORS, UNEXPECTED, ErrorEntry

# The JSON must follow: Spark also prints query plans, in which the text of a condition may stand as a literal.
_MARKER: Final = re.compile(r"\[(PENSTOCK_[A-Z0-9_]+)\] (?=\{)")
_ESCAPES_MAX: Final = 3


class PenstockError(Exception):
    """`str(error)` is one line that a person can act upon."""

    condition: ClassVar[str] = UNEXPECTED

    @property
    def entry(self) -> ErrorEntry:
        """What the condition means for a pipeline."""
        return ERRORS[self.condition]

    @property
    def summary(self) -> str:
        """What happened, for the marker. A class overrides it if `str(error)` also holds advice for another reader."""
        return str(self)

    @property
    def fields(self) -> Mapping[str, Any]:
        """Further JSON for the marker. `key` is the key of the pipeline file that the error is about."""
        return {}

    # A property, so that the marker costs nothing until a traceback is formatted.
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        return [*self.__dict__.get("_notes", ()), marker(self)]

    def add_note(self, note: str, /) -> None:
        self.__dict__.setdefault("_notes", []).append(note)


class CarriedError(PenstockError):
    """An error that was raised in another process, or behind Spark. `str(error)` is its summary."""

    def __init__(self, condition: str, message: str, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(condition, message, dict(fields or {}))

    def __str__(self) -> str:
        return str(self.args[1])

    @property
    def entry(self) -> ErrorEntry:
        """A process of a newer version may know conditions that this one does not."""
        return ERRORS.get(str(self.args[0]), ERRORS[UNEXPECTED])

    @property
    def fields(self) -> Mapping[str, Any]:
        found: dict[str, Any] = self.args[2]
        return found

    @classmethod
    def of(cls, error: PenstockError) -> CarriedError:
        """A copy that can be pickled, whatever the class of the error."""
        return cls(error.entry.condition, error.summary, error.fields)


def marker(error: PenstockError) -> str:
    content = {"message": " ".join(error.summary.split()), **error.fields}
    return f"[{error.entry.condition}] {json.dumps(content, ensure_ascii=False)}"


def find_error(text: str) -> CarriedError | None:
    """The last marker in a text: Python prints a cause before the error that it caused."""
    markers = list(_MARKER.finditer(text))
    if not markers:
        return None
    found = markers[-1]
    content = _content(text[found.end() :])
    message = str(content.pop("message", "")) or ERRORS.get(found[1], ERRORS[UNEXPECTED]).meaning
    return CarriedError(found[1], message, content)


def _content(text: str) -> dict[str, Any]:
    """The JSON that a text begins with. py4j escapes what it carries, once for each callback on the way."""
    line = text
    for _ in range(_ESCAPES_MAX):
        try:
            content, _end = json.JSONDecoder().raw_decode(line)
        except ValueError:
            line = line.replace("\\n", "\n").replace("\\\\", "\\")
            continue
        return dict(content)
    return {"message": text.partition("\n")[0]}


class ProtocolError(PenstockError):
    """A peer sent bytes that break the protocol; the connection is closed.

    Errors that a well-behaved peer must expect are `BrokerError`s (`protocol/error_codes.py`).
    """

    condition = "PENSTOCK_PROTOCOL_VIOLATION"


class ClientError(PenstockError):
    """The broker refused, or something else failed for good."""

    condition = "PENSTOCK_CLIENT_FAILED"


class BrokerUnreachable(ClientError):
    """No broker answered: nothing listens there, the name does not resolve, or the answer took too long."""

    condition = "PENSTOCK_BROKER_UNREACHABLE"


class AccessDenied(ClientError):
    """The broker, or the TLS connection to it, refuses who we are or what we may do."""

    condition = "PENSTOCK_ACCESS_DENIED"


class UnknownTopic(ClientError):
    """The topic, or the partition of it, does not exist."""

    condition = "PENSTOCK_UNKNOWN_TOPIC"


class TopicExists(ClientError):
    """A topic of that name is already there."""

    condition = "PENSTOCK_TOPIC_EXISTS"


class UnknownGroup(ClientError):
    """No consumer group of that name."""

    condition = "PENSTOCK_UNKNOWN_GROUP"


class GroupNotEmpty(ClientError):
    """The group has members, or members that read the topic; the operation requires that it has none."""

    condition = "PENSTOCK_GROUP_NOT_EMPTY"


class OffsetsMirrored(ClientError):
    """The committed offsets of the group are a copy of positions that are kept elsewhere; moving them has no effect."""

    condition = "PENSTOCK_OFFSETS_MIRRORED"


class CoordinatorLoading(ClientError):
    """The coordinator of the group is still loading its state, as after a restart of the broker."""

    condition = "PENSTOCK_COORDINATOR_LOADING"


class InvalidClientSetting(ClientError):
    """No such setting, or not that value of it."""

    condition = "PENSTOCK_INVALID_CLIENT_SETTING"


class BufferFull(ClientError):
    """`buffer.memory` stayed full for `max.block.ms`: records are sent more quickly than the broker takes them."""

    condition = "PENSTOCK_BUFFER_FULL"


class SerializationError(ClientError):
    """A key or a value could not be turned into bytes; nothing was sent."""

    condition = "PENSTOCK_SERIALIZATION_FAILED"


class DeserializationError(ClientError):
    """A key or a value could not be read. The consumer stays before this record; `seek` goes past it."""

    condition = "PENSTOCK_DESERIALIZATION_FAILED"

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class NoOffset(ClientError):
    """A partition has no position and `auto.offset.reset` is `none`. `seek` gives it one."""

    condition = "PENSTOCK_NO_OFFSET"

    def __init__(self, message: str, *, topic: str, partition: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition


class NoAssignment(ClientError):
    """The group did not assign partitions in time, so it is unknown whether records are left."""

    condition = "PENSTOCK_NO_ASSIGNMENT"


class CommitRefused(ClientError):
    """The group has rebalanced, and the partitions belong, or will belong, to another member. Nothing was committed."""

    condition = "PENSTOCK_COMMIT_REFUSED"


class TransactionAborted(ClientError):
    """The transaction cannot commit: it was aborted, or is when its block is left. It may be done again."""

    condition = "PENSTOCK_TRANSACTION_ABORTED"


class TransactionOutcomeUnknown(ClientError):
    """No answer to a commit in time. A new producer with the same `transactional.id` settles it, either way."""

    condition = "PENSTOCK_TRANSACTION_OUTCOME_UNKNOWN"


class ProducerFenced(ClientError):
    """Another producer took over this `transactional.id`. This one can do nothing more."""

    condition = "PENSTOCK_PRODUCER_FENCED"
