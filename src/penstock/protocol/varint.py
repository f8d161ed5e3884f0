"""Unsigned varints: seven bits per byte, lowest first. Lengths, counts and tags of flexible versions."""

from __future__ import annotations

from penstock.core.errors import ProtocolError


def read_unsigned_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """(value, position after it). At most five bytes and 31 bits: no frame is longer."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0x7FFFFFFF:
                raise ProtocolError("a varint has more than 31 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint is longer than five bytes")


def write_unsigned_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, position: int, end: int) -> int:
    """The position after a section of tagged fields, all of which are skipped."""
    count, position = read_unsigned_varint(buffer, position)
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > end:
            raise ProtocolError("a tagged field is longer than its frame")
    return position
