"""Backslash escapes in delimiters and formats."""

from __future__ import annotations

import pytest

from penstock.cli.command_error import CommandError
from penstock.cli.escapes import delimiter, unescape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", b"plain"),
        (r"\n\r\t\0", b"\n\r\t\0"),
        (r"a\x41\x00\xff", b"aA\x00\xff"),
        (r"\\n", b"\\n"),
        ("é|", "é|".encode()),
        ("\udcff", b"\xff"),  # how Python hands over a byte of the command line that is not UTF-8
    ],
)
def test_escapes_become_the_bytes_they_name(text: str, expected: bytes) -> None:
    assert unescape(text, "-D") == expected


@pytest.mark.parametrize("text", [r"\q", r"\x4", r"\xzz", "end\\"])
def test_an_unknown_escape_is_refused_with_the_option_and_the_known_ones(text: str) -> None:
    with pytest.raises(CommandError, match=r"-D .*unknown escape.*known"):
        unescape(text, "-D")


def test_a_delimiter_must_not_be_empty() -> None:
    assert delimiter(r"\t", "-K") == b"\t"
    with pytest.raises(CommandError, match="-K: the delimiter is empty"):
        delimiter("", "-K")
