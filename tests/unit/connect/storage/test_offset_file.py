"""The offsets file. The bytes were written by Java: a HashMap of byte arrays, as Kafka Connect saves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connect.connector import ConnectError, RetriableError
from penstock.connect.storage.offset_file import OffsetFile, decode, encode

JAVA_BYTES = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573686f6c6478703f4000000000000c77080000001000000002757200025b42acf317f8060854e00200007870000000185b22737263222c7b2266696c656e616d65223a2261227d5d7571007e00020000000e7b22706f736974696f6e223a367d7571007e0002000000185b22737263222c7b2266696c656e616d65223a2262227d5d7078"
)
JAVA_RECORDS = {b'["src",{"filename":"a"}]': b'{"position":6}', b'["src",{"filename":"b"}]': None}


def test_a_file_of_java_is_read_and_written_byte_by_byte() -> None:
    assert decode(JAVA_BYTES) == JAVA_RECORDS
    in_javas_order = dict.fromkeys(decode(JAVA_BYTES)) | JAVA_RECORDS
    assert encode(in_javas_order) == JAVA_BYTES


@pytest.mark.parametrize("count", [0, 1, 12, 13, 1000])
def test_any_number_of_records_survives(count: int) -> None:
    records = {f"key-{number}".encode(): b"x" * number for number in range(count)}
    assert decode(encode(records)) == records


def test_offsets_survive_and_tombstones_remove_them(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    OffsetFile(path).write([(b"a", b"1"), (b"b", b"2")])
    OffsetFile(path).write([(b"a", b"3"), (b"b", None)])
    assert OffsetFile(path).records() == {b"a": b"3"}
    assert [each.name for each in tmp_path.iterdir()] == ["connect.offsets"]


@pytest.mark.parametrize("content", [b"{}", JAVA_BYTES[:-20], JAVA_BYTES[:40], JAVA_BYTES[:100]])
def test_another_file_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ConnectError, match=r"notes\.txt \(offset\.storage\.file\.filename\)"):
        OffsetFile(path)
    assert path.read_bytes() == content


def test_an_empty_file_has_no_offsets(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    path.touch()
    assert OffsetFile(path).records() == {}


def test_the_directory_of_the_file_is_created(tmp_path: Path) -> None:
    path = tmp_path / "new" / "offsets"
    OffsetFile(path).write([(b"a", b"1")])
    assert OffsetFile(path).records() == {b"a": b"1"}


def test_offsets_that_cannot_be_written_are_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    offsets = OffsetFile(path)
    offsets.write([(b"a", b"1")])
    (tmp_path / ".offsets.new").mkdir()
    with pytest.raises(RetriableError, match="cannot be written"):
        offsets.write([(b"a", b"2")])
    assert offsets.records() == OffsetFile(path).records() == {b"a": b"1"}
