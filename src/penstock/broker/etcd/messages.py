"""etcd's messages as its gateway speaks them: JSON, with keys and values in base64 and 64-bit numbers as text.

A field that has its default (0, false, empty, "PUT") is left out. `error_of` knows which refusals of etcd are final.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.metadata.key_value_store import (
    Compare,
    Delete,
    KeyChange,
    KeyValue,
    LeaseId,
    LeaseNotFound,
    Put,
    Revision,
    RevisionCompacted,
    StoreRefused,
    StoreUnavailable,
    WatchedChanges,
)

Message = dict[str, Any]


class TokenExpired(Exception):
    """etcd does not know the authentication token, or no longer. It refused the request without looking at it."""


# gRPC's status codes, by which etcd says what kind of failure it is.
_UNKNOWN: Final = 2
_INVALID_ARGUMENT: Final = 3
_NOT_FOUND: Final = 5
_PERMISSION_DENIED: Final = 7
_RESOURCE_EXHAUSTED: Final = 8
_FAILED_PRECONDITION: Final = 9
_OUT_OF_RANGE: Final = 11
_UNIMPLEMENTED: Final = 12
_UNAUTHENTICATED: Final = 16
_REFUSALS: Final = frozenset(
    {_INVALID_ARGUMENT, _PERMISSION_DENIED, _RESOURCE_EXHAUSTED, _FAILED_PRECONDITION, _UNIMPLEMENTED}
)
_OLD_TOKENS: Final = ("invalid auth token", "revision of auth store is old")


def text_of(key: str) -> str:
    return b64encode(key.encode()).decode()


def encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def decode(body: bytes, source: object) -> Message:
    """Raises StoreUnavailable for what is not a message, such as the error page of a proxy."""
    try:
        message = json.loads(body)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise StoreUnavailable(f"{source} does not answer as etcd does: {body[:80].decode(errors='replace')!r}")
    return message


def range_message(key: str, end: str | None) -> Message:
    message: Message = {"key": text_of(key)}
    if end is not None:
        message["range_end"] = text_of(end)
    return message


def compare_message(compare: Compare) -> Message:
    return {
        "key": text_of(compare.key),
        "target": "MOD",
        "result": "EQUAL",
        "mod_revision": str(compare.mod_revision),
    }


def operation_message(operation: Put | Delete) -> Message:
    if isinstance(operation, Delete):
        return {"request_delete_range": range_message(operation.key, operation.end)}
    put: Message = {"key": text_of(operation.key), "value": b64encode(operation.value).decode()}
    if operation.lease_id:
        put["lease"] = str(operation.lease_id)
    return {"request_put": put}


def revision_of(message: Message) -> Revision:
    return Revision(int(message.get("header", {}).get("revision", 0)))


def key_value_of(message: Message) -> KeyValue:
    return KeyValue(
        key=_bytes_of(message, "key").decode(),
        value=_bytes_of(message, "value"),
        mod_revision=Revision(int(message.get("mod_revision", 0))),
        lease_id=LeaseId(int(message.get("lease", 0))),
    )


def watched_changes_of(events: Sequence[Message]) -> Iterator[WatchedChanges]:
    """Events in the order of their revisions, grouped by revision."""
    revision, changes = Revision(0), list[KeyChange]()
    for event in events:
        entry = key_value_of(event["kv"])
        if entry.mod_revision != revision and changes:
            yield WatchedChanges(revision, tuple(changes))
            changes = []
        revision = entry.mod_revision
        is_deletion = event.get("type") == "DELETE"
        changes.append(KeyChange(entry.key, None if is_deletion else entry.value, entry.lease_id))
    if changes:
        yield WatchedChanges(revision, tuple(changes))


def _bytes_of(message: Message, field: str) -> bytes:
    return b64decode(message.get(field, ""))


def error_of(message: Message, source: object) -> Exception:
    """What a failed call raises. The gateway's answers, and the errors within its streams, have different fields."""
    fields = message["error"] if isinstance(message.get("error"), dict) else message
    code = int(fields.get("code", fields.get("grpc_code", _UNKNOWN)))
    text = str(fields.get("message") or fields.get("error") or "an error without a message")
    text = text.removeprefix("etcdserver: ")
    if code == _UNAUTHENTICATED or any(old in text for old in _OLD_TOKENS):
        return TokenExpired(text)
    if code == _OUT_OF_RANGE and "compacted" in text:
        return RevisionCompacted(text)
    if code == _NOT_FOUND and "lease" in text:
        return LeaseNotFound(text)
    if code == _RESOURCE_EXHAUSTED and "too many requests" in text:
        return StoreUnavailable(f"etcd at {source}: {text}")
    if code in _REFUSALS:
        return StoreRefused(f"etcd at {source} refuses the request: {text}")
    return StoreUnavailable(f"etcd at {source}: {text}")
