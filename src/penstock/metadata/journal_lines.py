"""The text of the metadata journal: one JSON value per line, with a checksum. Pure; `store_local.py` owns the file.

A line is the CRC32C of the JSON in eight hexadecimal digits, a blank, the JSON in ASCII, and a newline. Each line is
fsynced before the next is written, so a crash can tear the last line only. A torn line ends without its newline, or has
blocks of zeros that never reached the disk; JSON in ASCII has no zero bytes. A last line that is whole and fails its
checksum was not torn by a crash: it is refused, like damage in any other line, and not dropped.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from crc32c import crc32c

# Two in a row: a single zero byte is also what a flipped bit makes of a blank.
_UNWRITTEN: Final = b"\0\0"


class JournalDamage(Exception):
    """A damaged line that a crash cannot explain. `line_number` counts from 1."""

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number}: {reason}")
        self.line_number = line_number
        self.reason = reason


class JournalContent(NamedTuple):
    """The values of the whole lines, and the size of the part of the file that they fill."""

    values: list[Any]
    valid_bytes: int


def encode_line(value: object) -> bytes:
    body = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (crc32c(body), body)


def decode_lines(content: bytes) -> JournalContent:
    """All values up to a torn last line, which was never acknowledged. Raises JournalDamage for other faults."""
    values: list[Any] = []
    position = 0
    while position < len(content):
        newline = content.find(b"\n", position)
        end = len(content) if newline < 0 else newline
        is_last = end + 1 >= len(content)
        if is_last and (newline < 0 or _UNWRITTEN in content[position:end]):
            break
        values.append(_decode_line(content[position:end], len(values) + 1))
        position = end + 1
    return JournalContent(values, position)


def _decode_line(line: bytes, line_number: int) -> Any:
    digits, body = line[:8], line[9:]
    try:
        expected = int(digits, 16)
    except ValueError:
        raise JournalDamage(line_number, "does not begin with a checksum") from None
    if line[8:9] != b" " or crc32c(body) != expected or b"%08x" % expected != digits:
        raise JournalDamage(line_number, "fails its checksum")
    try:
        return json.loads(body)
    except ValueError:
        raise JournalDamage(line_number, "passes its checksum but is no JSON") from None
