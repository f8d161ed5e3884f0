"""What a line of a file means: text, JSON or CSV. From records to lines, and from lines to records.

Owns the formats. It must not know files or positions.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connector import ConnectError
from penstock.connect.connectors.file.lines import join_lines, split_lines
from penstock.connect.data.java_texts import java_texts
from penstock.connect.data.records import Column, Failure, RecordGroup
from penstock.connect.data.schema import DECIMAL, STRING, struct

FORMATS: Final = ("text", "json", "csv")
LineWriter = Callable[[RecordGroup], tuple[bytes, Sequence[Failure]]]
LineReader = Callable[[bytes, int], Iterator[tuple[pa.Array, Column]]]
"""Takes whole lines and their position in the file. Yields values in groups of equal schema, and which line each is."""

# Records to lines


def line_writer(form: str) -> LineWriter:
    return {"text": text_lines, "json": json_lines, "csv": csv_lines}[form]


def text_lines(group: RecordGroup) -> tuple[bytes, Sequence[Failure]]:
    """The text form of values as Java prints them: `null`, `true`, `Struct{a=1,b=x}`. Bytes are written as they are."""
    return join_lines(_texts(group.value)), ()


def _texts(column: Column) -> pa.Array:
    values = column.values
    if pa.types.is_binary(values.type) and (column.schema is None or column.schema.name != DECIMAL):
        return values.fill_null(b"null") if values.null_count else values
    texts = java_texts(column.schema, values, bytes_text=lambda content: content.decode(errors="replace"))
    return texts.fill_null("null") if texts.null_count else texts


def json_lines(group: RecordGroup) -> tuple[bytes, Sequence[Failure]]:
    """Values as JSON without a schema, in Connect's forms: bytes in base64, a date as days, a missing value as null."""
    from penstock.connect.converters.json.writing import JsonWriter

    texts, _forbidden = JsonWriter(replace_nulls=False).texts(group.value.schema, group.value.values)
    return join_lines(texts), ()


def csv_lines(group: RecordGroup) -> tuple[bytes, Sequence[Failure]]:
    """The fields of structs and of maps without a schema, in their order. Other values are refused."""
    import pyarrow.csv

    values = group.value.values
    if not pa.types.is_struct(values.type) or any(pa.types.is_nested(field.type) for field in values.type):
        message = f"format=csv needs structs of plain fields, and these values are {values.type}"
        return b"", (Failure(group.rows.to_pylist(), message),)
    flat = values.filter(values.is_valid()) if values.null_count else values
    table = pa.Table.from_arrays(flat.flatten(), names=[field.name for field in values.type])
    out = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, out, pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed"))
    missing = group.rows.filter(pc.invert(values.is_valid())).to_pylist() if values.null_count else []
    failures = (Failure(missing, "format=csv needs structs, and the value is null"),) if missing else ()
    return out.getvalue().to_pybytes(), failures


# Lines to records


def line_reader(form: str, path: str) -> LineReader:
    """`path` is for messages, and for a header that stands at the beginning of the file."""
    match form:
        case "json":
            return _JsonReader(path)
        case "csv":
            return _CsvReader(path)
    return _read_text


def _numbers(count: int) -> pa.Array:
    return pa.array(np.arange(count, dtype=np.int64))


def _read_text(content: bytes, _position: int) -> Iterator[tuple[pa.Array, Column]]:
    lines = split_lines(content)
    yield _numbers(len(lines)), Column(STRING, lines)


class _JsonReader:
    """Each line is a value, without a schema. Empty lines are skipped."""

    def __init__(self, path: str) -> None:
        from penstock.connect.converters.json.converter import JsonConverter

        self._path = path
        self._converter = JsonConverter()
        self._converter.configure({"schemas.enable": "false"}, is_key=False)

    def __call__(self, content: bytes, position: int) -> Iterator[tuple[pa.Array, Column]]:
        lines = split_lines(content)
        lines = lines.filter(pc.not_equal(pc.utf8_trim_whitespace(lines), ""))
        converted = self._converter.to_connect(pa.nulls(len(lines), pa.string()), lines.cast(pa.binary()))
        for failure in converted.failures:
            raise ConnectError(
                f"{self._path}: line {failure.rows[0] + 1} behind byte {position} is not JSON ({failure.message});"
                " correct it, or set format=text"
            )
        for group in converted.groups:
            yield group.rows, group.column


class _CsvReader:
    """The file's first line has the names of the fields. Every field is a string, and null where a line has fewer."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as data:
            header = data.readline().decode("utf-8-sig", errors="replace")
        self._names = next(csv.reader([header]), [])
        if not self._names or len(set(self._names)) < len(self._names):
            raise ConnectError(f"{path}: the first line of a CSV file has the names of its fields, each one once")
        self._path = path
        self._schema = struct(dict.fromkeys(self._names, STRING.optional()))

    def __call__(self, content: bytes, position: int) -> Iterator[tuple[pa.Array, Column]]:
        lines = split_lines(content).to_pylist()[1 if position == 0 else 0 :]
        width = len(self._names)
        rows = [row for row in csv.reader(lines) if row]
        for number, row in enumerate(rows):
            if len(row) > width:
                raise ConnectError(
                    f"{self._path}: line {number + 1} behind byte {position} has {len(row)} fields, and the header has"
                    f" {width}"
                )
        columns = [
            pa.array([row[index] if index < len(row) else None for row in rows], pa.string()) for index in range(width)
        ]
        values = pa.StructArray.from_arrays(columns, fields=list(self._schema.arrow_type))
        yield _numbers(len(rows)), Column(self._schema, values)
