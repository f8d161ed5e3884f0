"""The `-o` option."""

from __future__ import annotations

import pytest

from penstock.cli.command_error import CommandError
from penstock.cli.start_position import Absolute, AtTime, Beginning, End, Range, Start, Tail, parse_range
from penstock.core.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("word", "start"),
    [
        ("beginning", Beginning()),
        ("earliest", Beginning()),
        ("end", End()),
        ("latest", End()),
        ("0", Absolute(0)),
        ("42", Absolute(42)),
        ("-10", Tail(10)),
        ("s@1700000000000", AtTime(1700000000000)),
    ],
)
def test_a_start(word: str, start: Start) -> None:
    assert parse_range([word], from_beginning=False) == Range(start)


def test_without_a_word_only_new_records_are_read() -> None:
    assert parse_range([], from_beginning=False) == Range(End())
    assert parse_range([], from_beginning=True) == Range(Beginning())


def test_a_stop_goes_with_any_start() -> None:
    assert parse_range(["s@5", "e@9"], from_beginning=False) == Range(AtTime(5), 9)
    assert parse_range(["e@9"], from_beginning=True) == Range(Beginning(), 9)


@pytest.mark.parametrize("words", [["1", "2"], ["beginning", "end"]])
def test_two_starts_are_wrong_usage(words: list[str]) -> None:
    with pytest.raises(CommandError, match="a start is given already"):
        parse_range(words, from_beginning=False)


def test_a_start_beside_from_beginning_is_wrong_usage() -> None:
    with pytest.raises(CommandError, match="--from-beginning"):
        parse_range(["5"], from_beginning=True)


@pytest.mark.parametrize("word", ["", "middle", "--5", "-", "1.5", "s@", "s@yesterday", "e@x", "٣", str(1 << 63)])
def test_what_is_no_position_is_wrong_usage_and_the_words_that_are_come_with_it(word: str) -> None:
    with pytest.raises(CommandError, match="expected beginning, end, OFFSET") as raised:
        parse_range([word], from_beginning=False)
    assert raised.value.exit_code is ExitCode.USAGE
