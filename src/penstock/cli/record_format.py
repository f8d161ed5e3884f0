"""Formats consumed records as bytes: kcat's format strings, or one JSON object per line.

Owns the two formats only; a record is what confluent-kafka's `Message` offers.

Invariants: a format string is checked completely before the first record is read; keys and values that are not UTF-8
survive both formats (raw in a format string, base64 in JSON).
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from penstock.cli.command_error import usage_error
from penstock.cli.options import unescape

_TIMESTAMP_TYPES: Final = {1: "create", 2: "log-append"}


class Record(Protocol):
    """The methods of confluent_kafka.Message that the formats use."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Any: ...


Piece = Callable[[Record], bytes]
Writer = Callable[[Record], bytes]


def compile_format(text: str, *, null: bytes = b"") -> Writer:
    """`null` stands for a null key, value or header value."""
    pieces: list[Piece] = []
    # Split before unescaping: an escaped byte such as \x25 ('%') does not start a token.
    for literal, token in re.findall(r"([^%]*)(%.?)?", text, re.DOTALL):
        if literal:
            pieces.append(_constant(unescape(literal, "-f")))
        if token:
            pieces.append(_token(token, text, null))
    return lambda record: b"".join([piece(record) for piece in pieces])


def _constant(data: bytes) -> Piece:
    return lambda record: data


def _token(token: str, text: str, null: bytes) -> Piece:
    pieces: dict[str, Piece] = {
        "%t": lambda record: (record.topic() or "").encode(),
        "%p": lambda record: b"%d" % (record.partition() or 0),
        "%o": lambda record: b"%d" % (record.offset() or 0),
        "%k": lambda record: _or_null(record.key(), null),
        "%K": lambda record: b"%d" % _length(record.key()),
        "%s": lambda record: _or_null(record.value(), null),
        "%S": lambda record: b"%d" % _length(record.value()),
        "%R": lambda record: struct.pack(">i", _length(record.value())),
        "%T": lambda record: b"%d" % record.timestamp()[1],
        "%h": lambda record: b",".join(
            name.encode() + b"=" + _or_null(value, null) for name, value in _headers(record)
        ),
        "%%": _constant(b"%"),
    }
    if token not in pieces:
        known = " ".join(pieces)
        raise usage_error(f"-f '{text}': unknown token '{token}' (known: {known})")
    return pieces[token]


def _or_null(data: bytes | None, null: bytes) -> bytes:
    return null if data is None else data


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: Record) -> Iterable[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = record.headers() or []
    return found


def write_json(record: Record) -> bytes:
    """One JSON object on one line. Bytes that are not UTF-8 are in `key_base64` or `value_base64`."""
    kind, timestamp = record.timestamp()
    fields: dict[str, Any] = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": timestamp if kind in _TIMESTAMP_TYPES else None,
        "timestamp_type": _TIMESTAMP_TYPES.get(kind),
        **json_field("key", record.key()),
        **json_field("value", record.value()),
        "headers": [{"name": name, **json_field("value", value)} for name, value in _headers(record)],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
