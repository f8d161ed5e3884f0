"""The source's plans and reads, called as the driver and tasks call them."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import ConnectError, SourceOffset, partition_key
from penstock.connect.connectors.file import source
from penstock.connect.connectors.file.source import FileStreamSourceConnector
from penstock.connect.data.schema import STRING


class Tail:
    """A source with its committed offsets."""

    def __init__(self, file: Path, **config: str) -> None:
        self.config = {"file": str(file), "topic": "lines", **config}
        self.offsets: dict[str, SourceOffset] = {}
        self.slices = 0

    def read(self) -> list[Any]:
        """All values that are there, in order of slices; a new connector each time, as after a restart."""
        connector = FileStreamSourceConnector("tail", self.config)
        values: list[Any] = []
        while slices := connector.plan(self.offsets):
            for each in slices:
                self.slices += 1
                for rows in pickle.loads(pickle.dumps(connector)).read(each):
                    values += rows.group.value.values.to_pylist()
                    self.offsets[partition_key(rows.partition or each.partition)] = json.loads(json.dumps(rows.offset))
        return values


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_text("one\ntwo\n")
    return path


def append(file: Path, text: str) -> None:
    with file.open("a") as lines:
        lines.write(text)


def test_lines_are_read_when_they_are_whole(log: Path) -> None:
    tail = Tail(log)
    append(log, "thr")
    assert tail.read() == ["one", "two"]
    assert tail.read() == []
    append(log, "ee\r\n\nfünf\n")
    assert tail.read() == ["three", "", "fünf"]


def test_records_are_kafkas(log: Path) -> None:
    connector = FileStreamSourceConnector("tail", {"file": str(log), "topic": "lines"})
    (slice_,) = connector.plan({})
    assert slice_.partition == {"filename": str(log)}
    (rows,) = connector.read(slice_)
    assert rows.offset["position"] == 8
    assert rows.group.value.schema == STRING
    assert rows.group.key.schema is None
    assert rows.group.topic.to_pylist() == ["lines", "lines"]
    assert rows.group.timestamp.null_count == 0


def test_a_renamed_file_is_finished_before_its_successor(log: Path) -> None:
    tail = Tail(log)
    tail.read()
    append(log, "three\npartial")
    log.rename(log.with_name("app.log.1"))
    log.write_text("four\n")
    assert tail.read() == ["three", "four"]
    append(log, "five\n")
    assert tail.read() == ["five"]


def test_a_truncated_file_begins_again(log: Path) -> None:
    tail = Tail(log)
    tail.read()
    log.write_text("new\n")
    assert tail.read() == ["new"]


def test_a_file_that_was_truncated_and_outgrew_its_position_begins_again(log: Path) -> None:
    tail = Tail(log)
    tail.read()
    with log.open("r+") as lines:  # the same inode
        lines.truncate()
        lines.write("other\nand longer than before\n")
    assert tail.read() == ["other", "and longer than before"]


def test_an_offset_of_kafkas_connector_is_taken_over(log: Path) -> None:
    tail = Tail(log)
    tail.offsets[partition_key({"filename": str(log)})] = {"position": 4}
    assert tail.read() == ["two"]


def test_a_directory_with_rotation_is_read_once(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    (directory / "app.log").write_text("1\n")
    (directory / "app.log.1").write_text("0\n")
    (directory / ".hidden").write_text("never\n")
    tail = Tail(directory)
    assert sorted(tail.read()) == ["0", "1"]
    append(directory / "app.log", "2\n")
    os.rename(directory / "app.log.1", directory / "app.log.2")
    os.rename(directory / "app.log", directory / "app.log.1")
    (directory / "app.log").write_text("3\n")
    assert sorted(tail.read()) == ["2", "3"]


def test_a_pattern_finds_new_files(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "*.txt")
    assert tail.read() == []
    (tmp_path / "b.txt").write_text("b\n")
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "c.log").write_text("c\n")
    assert tail.read() == ["a", "b"]


def test_a_large_file_is_read_in_slices_and_long_lines_are_kept_whole(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_SLICE_BYTES_MAX", 10)
    monkeypatch.setattr(source, "_READ_BYTES", 4)
    lines = ["x" * (number % 25) for number in range(60)]
    log.write_text("".join(f"{line}\n" for line in lines))
    tail = Tail(log)
    assert tail.read() == lines
    assert tail.slices > 20


def test_bytes_that_are_no_text_are_replaced(log: Path) -> None:
    log.write_bytes(b"a\xff\n")
    assert Tail(log).read() == ["a\ufffd"]


def test_csv_has_names_in_its_first_line(log: Path) -> None:
    log.write_text('id,name\n1,"a,b"\n')
    tail = Tail(log, format="csv")
    assert tail.read() == [{"id": "1", "name": "a,b"}]
    append(log, "2\n")
    assert tail.read() == [{"id": "2", "name": None}]
    append(log, "3,c,surplus\n")
    with pytest.raises(ConnectError, match="3 fields"):
        tail.read()


def test_json_lines_keep_their_order_over_shapes(log: Path) -> None:
    log.write_text('{"a":1}\n\n[1]\n{"a":2}\n')
    connector = FileStreamSourceConnector("tail", {"file": str(log), "topic": "lines", "format": "json"})
    (slice_,) = connector.plan({})
    read = list(connector.read(slice_))
    found = sorted((row, value) for rows in read for row, value in _rows(rows.group))
    assert [value for _row, value in found] == ['{"a": 1}', "[1]", '{"a": 2}']
    assert len({id(rows.offset) for rows in read}) == 1
    log.write_text("{no\n")
    with pytest.raises(ConnectError, match="is not JSON"):
        list(connector.read(slice_))


def _rows(group: Any) -> list[tuple[int, str]]:
    return [
        (row, json.dumps(value))
        for row, value in zip(group.rows.to_pylist(), group.value.values.to_pylist(), strict=True)
    ]


def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    assert Tail(tmp_path / "later.txt").read() == []


def test_a_relative_name_is_that_of_the_partition(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    connector = FileStreamSourceConnector("tail", {"file": "app.log", "topic": "lines"})
    (slice_,) = connector.plan({})
    assert slice_.partition == {"filename": "app.log"}
    monkeypatch.chdir("/")  # where a task may be
    assert [rows.group.value.values.to_pylist() for rows in connector.read(slice_)] == [["one", "two"]]


def test_one_file_is_one_task(tmp_path: Path) -> None:
    assert FileStreamSourceConnector("x", {"file": str(tmp_path / "a"), "topic": "t"}).task_count(8) == 1
    assert FileStreamSourceConnector("x", {"file": str(tmp_path), "topic": "t"}).task_count(8) == 8


def test_mistakes_name_their_property(log: Path) -> None:
    for config in ({"topic": "t"}, {"file": "f"}, {"file": "f", "topic": "t", "batch.size": "0"}):
        with pytest.raises(ConfigException):
            FileStreamSourceConnector("x", config)
    with pytest.raises(ConnectError, match="filename"):
        FileStreamSourceConnector.check_offsets({}, [({"file": "x"}, {"position": 1})])
    with pytest.raises(ConnectError, match="position"):
        FileStreamSourceConnector.check_offsets({}, [({"filename": "x"}, {"position": -1})])
    FileStreamSourceConnector.check_offsets({}, [({"filename": "x"}, None)])
