"""Splits a byte stream into records, and each record into key and value, for `penstock produce`.

It must not know where the bytes come from or where the records go.

Invariant: memory is bounded by one read and the longest allowed record, for a stream of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.cli.command_error import CommandError

READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class RecordInput:
    """How a piece of the input is split into key and value."""

    key_delimiter: bytes | None = None
    fixed_key: bytes | None = None
    empty_is_null: bool = False

    def split(self, piece: bytes) -> tuple[bytes | None, bytes | None]:
        """Returns (key, value). A piece without the key delimiter has the fixed key, or none."""
        key, value = self.fixed_key, piece
        if self.key_delimiter is not None:
            before, found, after = piece.partition(self.key_delimiter)
            if found:
                key, value = before, after
        if self.empty_is_null:
            return key or None, value or None
        return key, value


def split_stream(read: Callable[[int], bytes], delimiter: bytes, record_bytes_max: int) -> Iterator[bytes]:
    """Yields the pieces between delimiters; also a last piece without a delimiter, unless it is empty."""
    pending = b""
    count = 0
    while chunk := read(READ_BYTES):
        pieces = (pending + chunk).split(delimiter)
        pending = pieces.pop()
        yield from pieces
        count += len(pieces)
        if len(pending) > record_bytes_max:
            raise CommandError(
                f"record {count + 1} of the input is longer than {record_bytes_max} bytes; check the delimiter (-D), "
                "or allow longer records with -X message.max.bytes=N"
            )
    if pending:
        yield pending
