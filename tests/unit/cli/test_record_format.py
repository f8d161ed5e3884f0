"""How consumed records are written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from penstock.cli.command_error import CommandError
from penstock.cli.record_format import compile_format, write_json


@dataclass
class FakeRecord:
    """Answers as confluent_kafka.Message does."""

    key_bytes: bytes | None = b"alice"
    value_bytes: bytes | None = b"hello"
    header_list: list[tuple[str, bytes | None]] | None = field(default=None)
    timestamp_pair: tuple[int, int] = (1, 1700000000123)

    def topic(self) -> str | None:
        return "orders"

    def partition(self) -> int | None:
        return 2

    def offset(self) -> int | None:
        return 41

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def timestamp(self) -> tuple[int, int]:
        return self.timestamp_pair

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.header_list


def test_every_token_is_written() -> None:
    record = FakeRecord(header_list=[("a", b"1"), ("b", None)])
    write = compile_format(r"%t|%p|%o|%k|%K|%s|%S|%T|%h|%%|\x41\n")
    assert write(record) == b"orders|2|41|alice|5|hello|5|1700000000123|a=1,b=|%|A\n"


def test_nulls_have_length_minus_one_and_are_written_as_told() -> None:
    record = FakeRecord(key_bytes=None, value_bytes=None)
    assert compile_format("%k,%K,%s,%S")(record) == b",-1,,-1"
    assert compile_format("%k,%K,%s,%S", null=b"NULL")(record) == b"NULL,-1,NULL,-1"


def test_the_binary_length_is_four_bytes_big_endian() -> None:
    assert compile_format("%R%s")(FakeRecord()) == b"\x00\x00\x00\x05hello"
    assert compile_format("%R")(FakeRecord(value_bytes=None)) == b"\xff\xff\xff\xff"


def test_an_escaped_percent_byte_starts_no_token() -> None:
    assert compile_format(r"\x25s")(FakeRecord()) == b"%s"


def test_bytes_that_are_not_text_come_out_as_they_are() -> None:
    assert compile_format("%s")(FakeRecord(value_bytes=b"\xff\x00")) == b"\xff\x00"


@pytest.mark.parametrize("text", ["%q", "abc%", r"\q"])
def test_a_bad_format_is_refused_before_any_record_is_read(text: str) -> None:
    with pytest.raises(CommandError, match=r"-f .*unknown"):
        compile_format(text)


def test_json_is_one_line_with_everything_in_it() -> None:
    line = write_json(FakeRecord(value_bytes="zwei\nzeilen ü".encode(), header_list=[("a", b"1"), ("b", None)]))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "timestamp": 1700000000123,
        "timestamp_type": "create",
        "key": "alice",
        "value": "zwei\nzeilen ü",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }


def test_json_tells_null_empty_and_binary_apart() -> None:
    assert json.loads(write_json(FakeRecord(value_bytes=None)))["value"] is None
    assert json.loads(write_json(FakeRecord(value_bytes=b"")))["value"] == ""
    binary = json.loads(write_json(FakeRecord(key_bytes=b"\xff\xfe", header_list=[("h", b"\xff")])))
    assert binary["key_base64"] == "//4="
    assert "key" not in binary
    assert binary["headers"] == [{"name": "h", "value_base64": "/w=="}]


def test_json_has_no_timestamp_where_the_record_has_none() -> None:
    written = json.loads(write_json(FakeRecord(timestamp_pair=(0, -1))))
    assert (written["timestamp"], written["timestamp_type"]) == (None, None)
