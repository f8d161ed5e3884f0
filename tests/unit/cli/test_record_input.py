"""Records out of a byte stream."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.command_error import CommandError
from penstock.cli.record_input import RecordInput, split_stream


def reader_of(*chunks: bytes) -> Callable[[int], bytes]:
    remaining = [chunk for chunk in chunks if chunk]
    return lambda _size: remaining.pop(0) if remaining else b""


def test_pieces_may_span_reads_and_delimiters_may_too() -> None:
    read = reader_of(b"one|", b"|tw", b"o||thr", b"ee")
    assert list(split_stream(read, b"||", 100)) == [b"one", b"two", b"three"]


def test_an_empty_line_is_a_record_and_the_end_of_the_last_line_is_not() -> None:
    assert list(split_stream(reader_of(b"a\n\nb\n"), b"\n", 100)) == [b"a", b"", b"b"]
    assert list(split_stream(reader_of(), b"\n", 100)) == []


@given(
    lines=st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=30),
    size=st.integers(min_value=1, max_value=40),
)
def test_the_size_of_reads_does_not_matter(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert list(split_stream(reader_of(*chunks), b"\n", 100)) == lines


def test_a_record_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    endless = split_stream(lambda size: b"x" * size, b"\n", 100_000)
    with pytest.raises(CommandError, match="record 1 of the input is longer than 100000 bytes"):
        next(endless)


def test_the_number_of_the_record_that_is_too_long_is_given() -> None:
    pieces = split_stream(reader_of(b"a\nb\n" + b"x" * 50), b"\n", 10)
    assert [next(pieces), next(pieces)] == [b"a", b"b"]
    with pytest.raises(CommandError, match="record 3 of the input"):
        next(pieces)


@pytest.mark.parametrize(
    ("record_input", "piece", "expected"),
    [
        (RecordInput(), b"a:b", (None, b"a:b")),
        (RecordInput(key_delimiter=b":"), b"a:b:c", (b"a", b"b:c")),
        (RecordInput(key_delimiter=b":"), b"no key", (None, b"no key")),
        (RecordInput(key_delimiter=b":"), b":", (b"", b"")),
        (RecordInput(key_delimiter=b":", empty_is_null=True), b":", (None, None)),
        (RecordInput(key_delimiter=b":", empty_is_null=True), b"a:", (b"a", None)),
        (RecordInput(empty_is_null=True), b"", (None, None)),
        (RecordInput(), b"", (None, b"")),
        (RecordInput(fixed_key=b"k"), b"v", (b"k", b"v")),
        (RecordInput(fixed_key=b"k", key_delimiter=b":"), b"own:v", (b"own", b"v")),
        (RecordInput(fixed_key=b"k", key_delimiter=b":"), b"v", (b"k", b"v")),
    ],
)
def test_key_and_value(record_input: RecordInput, piece: bytes, expected: tuple[bytes | None, bytes | None]) -> None:
    assert record_input.split(piece) == expected
