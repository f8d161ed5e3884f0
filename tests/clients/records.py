"""The records that every client must carry unharmed, and how two views of a record are compared.

Invariant: a sample never depends on the client that carries it. What a client cannot express is left out by the matrix,
as a feature that the client has none of, not by bending a sample.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a client sends or sees it. `timestamp_ms` None: the client chooses, which is the present time."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as a client reads it back."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


# Recent enough for no broker to let it fall to retention, and never in the future.
BASE_TIMESTAMP_MS: Final = int(time.time() * 1000) - 3_600_000

_EVERY_BYTE: Final = bytes(range(256))
_INCOMPRESSIBLE_MB: Final = random.Random(20).randbytes(1_000_000)

RECORD_SHAPES: Final[dict[str, list[Record]]] = {
    "keys": [
        Record(b"plain", b"v0"),
        Record(_EVERY_BYTE, _EVERY_BYTE),
        Record(b"", b"empty key"),
        Record(b"k" * 500, b"v"),
    ],
    "null keys": [Record(None, b"first"), Record(None, b"second")],
    "null values": [Record(b"tombstone", None), Record(b"another", None)],
    "headers": [
        Record(b"k", b"many", (("first", b"1"), ("second", b"two words"), ("empty", b""))),
        Record(b"k", b"twice the same name", (("name", b"1"), ("name", b"2"))),
        Record(b"k", b"other alphabet", (("größe", "naïve".encode()),)),
        Record(b"k", b"none"),
    ],
    "null headers": [Record(b"k", b"v", (("null", None), ("not null", b"x")))],
    "timestamps": [
        Record(b"k", b"base", timestamp_ms=BASE_TIMESTAMP_MS),
        Record(b"k", b"later", timestamp_ms=BASE_TIMESTAMP_MS + 86_399),
        Record(b"k", b"out of order", timestamp_ms=BASE_TIMESTAMP_MS - 7),
    ],
    "0-byte records": [Record(b"k", b""), Record(b"", b"")],
    "0-byte records without key": [Record(None, b""), Record(None, b"after")],
    "1 MB records": [Record(b"large", _INCOMPRESSIBLE_MB), Record(b"after", b"small")],
}

# Each value alone gets smaller with every codec: librdkafka sends a batch as it is where compression gains nothing.
COMPRESSIBLE: Final = [
    Record(b"key-%d" % number, (b"value %d of a compressed batch; " % number) * 40) for number in range(50)
]

# With its line end each is 128 bytes, and all of them are a block of kcat's input: it sends what it has read by blocks.
IN_TRANSACTION: Final = [Record(None, b"%127d" % number) for number in range(8)]


def numbered(count: int, *, first_timestamp_ms: int | None = None, step_ms: int = 1000) -> list[Record]:
    """Small distinct records; with a first timestamp, each `step_ms` later than the one before."""
    return [
        Record(
            b"%d" % number,
            b"value-%d" % number,
            timestamp_ms=None if first_timestamp_ms is None else first_timestamp_ms + number * step_ms,
        )
        for number in range(count)
    ]


def assert_same(
    stored: Sequence[StoredRecord], sent: Sequence[Record], *, sent_between_ms: tuple[int, int], first_offset: int = 0
) -> None:
    """Fails unless `stored` is exactly what was sent: order, offsets, keys, values, headers and timestamps.

    A timestamp that the client chose itself must lie in the time when it was sent.
    """
    assert [record.offset for record in stored] == list(range(first_offset, first_offset + len(sent)))
    for record, expected in zip(stored, sent, strict=True):
        seen = Record(record.key, record.value, record.headers, record.timestamp_ms)
        if expected.timestamp_ms is None:
            earliest, latest = sent_between_ms
            assert earliest <= record.timestamp_ms <= latest
            seen = replace(seen, timestamp_ms=None)
        assert seen == expected


def now_ms() -> int:
    return time.time_ns() // 1_000_000
