"""Where consuming starts and ends: the `-o` of kcat, parsed.

Owns the syntax. What an offset, a tail or a time means on a given partition is asked of the broker in `consume.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.cli.command_error import usage_error


@dataclass(frozen=True, slots=True)
class Beginning:
    """The earliest record that is kept."""


@dataclass(frozen=True, slots=True)
class End:
    """Only what comes after the start of the command."""


@dataclass(frozen=True, slots=True)
class Absolute:
    offset: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The last `count` records of each partition."""

    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record with this timestamp or a later one."""

    timestamp_ms: int


Start = Beginning | End | Absolute | Tail | AtTime


@dataclass(frozen=True, slots=True)
class Range:
    start: Start
    stop_timestamp_ms: int | None = None
    """Records of this time and later are not wanted (`e@`)."""


def parse_range(words: Sequence[str], *, from_beginning: bool) -> Range:
    """Without a word: the end, as kafka-console-consumer.sh, or the beginning where that was asked for."""
    start: Start | None = Beginning() if from_beginning else None
    stop = None
    for word in words:
        if word.startswith("e@"):
            stop = _number(word[2:], word)
            continue
        if start is not None:
            raise usage_error(
                f"-o {word}: a start is given already" + (" (--from-beginning)" if from_beginning else "")
            )
        start = _start(word)
    return Range(start if start is not None else End(), stop)


def _start(word: str) -> Start:
    if word in ("beginning", "earliest"):
        return Beginning()
    if word in ("end", "latest"):
        return End()
    if word.startswith("s@"):
        return AtTime(_number(word[2:], word))
    if word.startswith("-"):
        return Tail(_number(word[1:], word))
    return Absolute(_number(word, word))


def _number(digits: str, word: str) -> int:
    if not (digits.isascii() and digits.isdecimal()) or int(digits) >= 1 << 63:
        raise usage_error(
            f"-o {word}: expected beginning, end, OFFSET, -N, s@TIMESTAMP or e@TIMESTAMP (milliseconds since 1970)"
        )
    return int(digits)
