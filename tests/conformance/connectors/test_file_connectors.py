"""The file connectors keep what a worker relies on, with every format of lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.connect.connectors.file import source
from penstock.connect.connectors.file.sink import FileStreamSinkConnector
from penstock.connect.connectors.file.source import FileStreamSourceConnector
from penstock.testing.connectors import (
    BYTES_VALUE,
    KEYED,
    NESTED,
    NUMBER,
    OTHER_STRUCT,
    SCHEMALESS,
    STRUCT,
    TEXT,
    RecordShape,
    SinkAdapter,
    SinkConformance,
    SourceAdapter,
    SourceConformance,
    number_in,
)


class TextSink(SinkAdapter):
    connector = FileStreamSinkConnector
    accepts: ClassVar[Sequence[RecordShape]] = (TEXT, STRUCT, OTHER_STRUCT, KEYED, NESTED, SCHEMALESS, BYTES_VALUE)
    form = "text"

    def config(self) -> Mapping[str, str]:
        return {"file": str(self.directory / "out.txt"), "format": self.form}

    def written(self) -> Sequence[int]:
        file = self.directory / "out.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        return [number for line in lines if (number := self.number(line)) is not None]

    def number(self, line: str) -> int | None:
        return number_in(line)


class JsonSink(TextSink):
    accepts: ClassVar[Sequence[RecordShape]] = (TEXT, NUMBER, STRUCT, OTHER_STRUCT, NESTED, SCHEMALESS)
    form = "json"

    def number(self, line: str) -> int | None:
        value = json.loads(line)
        return value if isinstance(value, int) else number_in(line)


class CsvSink(TextSink):
    accepts: ClassVar[Sequence[RecordShape]] = (STRUCT, OTHER_STRUCT, SCHEMALESS)
    refuses: ClassVar[Sequence[RecordShape]] = (TEXT, NUMBER, NESTED)
    form = "csv"

    def number(self, line: str) -> int | None:
        (row,) = csv.reader([line])
        return int(row[0])


class TestTextSink(SinkConformance):
    adapter = TextSink


class TestJsonSink(SinkConformance):
    adapter = JsonSink


class TestCsvSink(SinkConformance):
    adapter = CsvSink


class TextSource(SourceAdapter):
    """Two files, read a few lines at a time so that a slice has several offsets."""

    connector = FileStreamSourceConnector
    form = "text"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(source, "_READ_BYTES", 32)

    def close(self) -> None:
        self._patch.undo()

    def config(self) -> Mapping[str, str]:
        return {"file": str(self.directory / "*.in"), "topic": "lines", "format": self.form}

    def put(self, numbers: Sequence[int]) -> None:
        for name, share in (("a.in", numbers[::2]), ("b.in", numbers[1::2])):
            file = self.directory / name
            is_new = not file.exists()
            with file.open("a") as output:
                output.writelines(self.lines(share, is_new))

    def lines(self, numbers: Sequence[int], _is_new: bool) -> Sequence[str]:
        return [f"record {number}\n" for number in numbers]

    def number_of(self, value: Any) -> int:
        return int(value.removeprefix("record "))


class JsonSource(TextSource):
    """Lines of several shapes, so that a part of a file has several groups."""

    form = "json"

    def lines(self, numbers: Sequence[int], _is_new: bool) -> Sequence[str]:
        return [f"{json.dumps({'number': each, **({'odd': True} if each % 3 else {})})}\n" for each in numbers]

    def number_of(self, value: Any) -> int:
        number: int = value["number"]
        return number


class CsvSource(TextSource):
    form = "csv"

    def lines(self, numbers: Sequence[int], is_new: bool) -> Sequence[str]:
        return [*(["number,note\n"] if is_new else []), *(f"{number},x\n" for number in numbers)]

    def number_of(self, value: Any) -> int:
        return int(value["number"])


class TestTextSource(SourceConformance):
    adapter = TextSource


class TestJsonSource(SourceConformance):
    adapter = JsonSource


class TestCsvSource(SourceConformance):
    adapter = CsvSource
