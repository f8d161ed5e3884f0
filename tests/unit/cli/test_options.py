"""Option values: `NAME=VALUE`, and escapes in delimiters and formats."""

from __future__ import annotations

import pytest

from penstock.cli.command_error import CommandError
from penstock.cli.options import parse_assignments, parse_delimiter, unescape
from penstock.core.exit_codes import ExitCode


def test_the_value_begins_at_the_first_equals_sign_and_may_be_empty() -> None:
    assert parse_assignments(["a=1", "b = x=y ", "c="], "-X") == {"a": "1", "b": "x=y", "c": ""}


def test_the_last_value_of_a_name_wins() -> None:
    assert parse_assignments(["a=1", "a=2"], "-X") == {"a": "2"}


@pytest.mark.parametrize("word", ["a", "=1", " =1", ""])
def test_a_word_without_a_name_or_an_equals_sign_is_wrong_usage_and_names_the_option(word: str) -> None:
    with pytest.raises(CommandError, match=r"--config .*expected NAME=VALUE") as raised:
        parse_assignments([word], "--config")
    assert raised.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", b"plain"),
        (r"\n\r\t\0", b"\n\r\t\0"),
        (r"a\x41\x00\xff", b"aA\x00\xff"),
        (r"\\n", b"\\n"),
        ("é|", "é|".encode()),
        ("\udcff", b"\xff"),  # how Python passes a byte of the command line that is not UTF-8
    ],
)
def test_escapes_become_the_bytes_they_name(text: str, expected: bytes) -> None:
    assert unescape(text, "-D") == expected


@pytest.mark.parametrize("text", [r"\q", r"\x4", r"\xzz", "end\\"])
def test_an_unknown_escape_is_refused_with_the_option_and_the_known_ones(text: str) -> None:
    with pytest.raises(CommandError, match=r"-D .*unknown escape.*known"):
        unescape(text, "-D")


def test_a_delimiter_must_not_be_empty() -> None:
    assert parse_delimiter(r"\t", "-K") == b"\t"
    with pytest.raises(CommandError, match="-K: the delimiter is empty"):
        parse_delimiter("", "-K")
