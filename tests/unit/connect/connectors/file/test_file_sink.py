"""The sink's writers and commits, called as tasks and the driver call them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import Batch, ConnectError
from penstock.connect.connectors.file.sink import FileStreamSinkConnector
from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import INT32, STRING, Schema, struct
from penstock.core.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
POINT = struct({"x": INT32, "name": STRING.optional()})


def group(values: list[Any], schema: Schema | None = STRING) -> RecordGroup:
    count = len(values)
    array = pa.array(values, schema.arrow_type if schema is not None else None)
    return RecordGroup(
        pa.array(range(count), pa.int64()),
        pa.repeat("orders", count),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        pa.nulls(count, pa.int64()),
        Column(None, pa.nulls(count)),
        Column(schema, array),
        offset=pa.array(range(count), pa.int64()),
    )


def write(connector: FileStreamSinkConnector, *groups: RecordGroup, guarantee: Any = "at_least_once") -> list[Any]:
    writer = pickle.loads(pickle.dumps(connector)).open_writer(0, guarantee)
    failures = [failure for each in groups for failure in writer.put(each)]
    writer.finish()
    return failures


def test_lines_are_appended(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text("before\n")
    connector = FileStreamSinkConnector("copy", {"file": str(file)})
    connector.start()
    write(connector, group(["a", "b"]), group(["ü"]))
    assert file.read_text() == "before\na\nb\nü\n"


@pytest.mark.parametrize(
    ("form", "values", "schema", "lines"),
    [
        ("text", [None, "x"], STRING.optional(), ["null", "x"]),
        ("text", [1, 2], INT32, ["1", "2"]),
        ("text", [b"raw", b""], None, ["raw", ""]),
        ("text", [True, False], None, ["true", "false"]),
        ("text", [{"x": 1, "name": "p"}, {"x": 2, "name": None}], POINT, ["Struct{x=1,name=p}", "Struct{x=2}"]),
        ("text", [{"x": 1, "name": None}], None, ["{x=1, name=null}"]),
        ("json", [{"x": 1, "name": "p"}, None], POINT, ['{"x":1,"name":"p"}', "null"]),
        ("csv", [{"x": 1, "name": "a,b"}, {"x": 2, "name": None}], POINT, ['1,"a,b"', "2,"]),
    ],
)
def test_values_become_lines(tmp_path: Path, form: str, values: list[Any], schema: Any, lines: list[str]) -> None:
    file = tmp_path / "out"
    connector = FileStreamSinkConnector("copy", {"file": str(file), "format": form})
    assert write(connector, group(values, schema)) == []
    assert file.read_text().splitlines() == lines


def test_without_a_file_lines_go_to_the_workers_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    connector = FileStreamSinkConnector("copy", {})
    connector.start()
    results = []
    for values in (["a", "b"], ["c"]):
        writer = connector.open_writer(0, "at_least_once")
        writer.put(group(values))
        results.append(writer.finish())
    assert capfdbinary.readouterr().out == b""
    connector.commit(results, Batch({ORDERS: (0, 3)}))
    assert capfdbinary.readouterr().out == b"a\nb\nc\n"


def test_csv_refuses_what_has_no_fields(tmp_path: Path) -> None:
    connector = FileStreamSinkConnector("copy", {"file": str(tmp_path / "out"), "format": "csv"})
    (whole,) = write(connector, group(["a", "b"]))
    assert list(whole.rows) == [0, 1]
    (null,) = write(connector, group([{"x": 1, "name": "a"}, None], POINT))
    assert list(null.rows) == [1]
    assert (tmp_path / "out").read_text() == '1,"a"\n'


def test_exactly_once_keeps_positions_with_the_lines(tmp_path: Path) -> None:
    config = {"file": str(tmp_path / "out"), "guarantee": "exactly_once"}
    first = FileStreamSinkConnector("copy", config)
    first.start()
    write(first, group(["a"]), guarantee="exactly_once")
    first.commit([None], Batch({ORDERS: (0, 1)}))
    write(first, group(["lost"]), guarantee="exactly_once")
    second = FileStreamSinkConnector("copy", config)
    second.start()
    assert second.positions([ORDERS]) == {ORDERS: 1}
    with pytest.raises(ConnectError, match="taken over"):
        write(first, group(["late"]), guarantee="exactly_once")
    assert (tmp_path / "out").read_text() == "a\n"


def test_mistakes_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match="set file"):
        FileStreamSinkConnector("copy", {"guarantee": "exactly_once"})
    with pytest.raises(ConfigException, match="format"):
        FileStreamSinkConnector("copy", {"format": "xml"})
    with pytest.raises(ConnectError, match="does not exist"):
        FileStreamSinkConnector("copy", {"file": str(tmp_path / "missing" / "out")}).start()
