"""Java's properties format, which Kafka's configuration files and `meta.properties` are written in.

Knows lines, keys and values, and nothing of what they mean. Every entry keeps its line number, so that an error message
can name the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(Exception):
    """A line that the format does not allow."""

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number}: {reason}")
        self.line_number = line_number
        self.reason = reason


class Entry(NamedTuple):
    key: str
    value: str
    line_number: int


def parse_properties(text: str) -> list[Entry]:
    """All entries in the order of the file. As in Java, a key may occur twice; the later one takes precedence."""
    return [_parse_entry(line, number) for line, number in _logical_lines(text)]


def format_properties(values: Mapping[str, str]) -> str:
    """One `key=value` line per entry, in the order of the keys; `parse_properties` reads back the same values."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(values[key], is_key=False)}\n" for key in sorted(values))


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Joins continued lines, drops comments and blank lines. A comment line cannot be continued."""
    pending = ""
    pending_number = 0
    # Not splitlines(): that would also break lines at characters that the format takes as they are.
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = raw.lstrip(_BLANKS)
        if not pending_number:
            if not line or line[0] in "#!":
                continue
            pending_number = number
        if _ends_in_continuation(line):
            pending += line[:-1]
            continue
        yield pending + line, pending_number
        pending = ""
        pending_number = 0
    if pending_number:
        yield pending, pending_number


def _ends_in_continuation(line: str) -> bool:
    """An odd number of backslashes at the end: the last one is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _parse_entry(line: str, line_number: int) -> Entry:
    end = _end_of_key(line)
    value_start = end
    while value_start < len(line) and line[value_start] in _BLANKS:
        value_start += 1
    if value_start < len(line) and line[value_start] in "=:":
        value_start += 1
    while value_start < len(line) and line[value_start] in _BLANKS:
        value_start += 1
    return Entry(_unescape(line[:end], line_number), _unescape(line[value_start:], line_number), line_number)


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            pieces.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise PropertiesError(line_number, "\\u must be followed by four hexadecimal digits")
            pieces.append(chr(int(digits, 16)))
            position += 4
        else:
            pieces.append(_ESCAPES.get(escaped, escaped))
    return "".join(pieces)


def _escape(text: str, *, is_key: bool) -> str:
    pieces: list[str] = []
    for position, character in enumerate(text):
        if character in "\t\n\r\f":
            pieces.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[character])
        elif character == "\\" or (character == " " and (is_key or position == 0)) or (is_key and character in "=:#!"):
            pieces.append("\\" + character)
        else:
            pieces.append(character)
    return "".join(pieces)
