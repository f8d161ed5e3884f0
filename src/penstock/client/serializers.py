"""Serializers and deserializers of keys and values: bytes, string and JSON by name, or any callable of the user.

Invariant: null stays null. No serializer or deserializer is called with None: a null value is a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from penstock.core.errors import InvalidClientSetting

Serializer = Callable[[Any], bytes]
Deserializer = Callable[[bytes], Any]
Format = Literal["bytes", "string", "json"]


def bytes_or_text(value: Any) -> bytes:
    """The producer's default: bytes unchanged, text as UTF-8."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"expected bytes or str, got {type(value).__name__}; set a serializer, such as 'json'")


def only_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"expected bytes, got {type(value).__name__}")


def to_string(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"expected text, got {type(value).__name__}")


def to_json(value: Any) -> bytes:
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def as_bytes(data: bytes) -> bytes:
    return data


def from_string(data: bytes) -> str:
    return data.decode()


def from_json(data: bytes) -> Any:
    import json

    return json.loads(data)


_SERIALIZERS: Final[Mapping[str, Serializer]] = {"bytes": only_bytes, "string": to_string, "json": to_json}
_DESERIALIZERS: Final[Mapping[str, Deserializer]] = {"bytes": as_bytes, "string": from_string, "json": from_json}


def serializer(chosen: Format | Serializer | None) -> Serializer:
    return bytes_or_text if chosen is None else _by_name(chosen, _SERIALIZERS, "serializer")


def deserializer(chosen: Format | Deserializer | None) -> Deserializer:
    return as_bytes if chosen is None else _by_name(chosen, _DESERIALIZERS, "deserializer")


def _by_name(
    chosen: str | Callable[[Any], Any], known: Mapping[str, Callable[[Any], Any]], kind: str
) -> Callable[[Any], Any]:
    if callable(chosen):
        return chosen
    if chosen not in known:
        raise InvalidClientSetting(f"no {kind} {chosen!r}: expected a callable or one of {', '.join(known)}")
    return known[chosen]
