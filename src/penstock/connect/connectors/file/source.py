"""FileStreamSourceConnector: lines of files as records.

Kafka's properties are `file`, `topic` and `batch.size`; ours are `format`, and that `file` may name a directory or a
pattern. A line is read when its end has been written. Files are tailed by byte offset, and renaming and truncating are
noticed (`tracking.py`). On a cluster, the files are on a file system that its machines share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, ClassVar, Final

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import at_least, non_empty, one_of, parse
from penstock.connect.connector import (
    ConnectError,
    RetriableError,
    Slice,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceRows,
)
from penstock.connect.connectors.file.line_formats import FORMATS, LineReader, line_reader
from penstock.connect.connectors.file.lines import NEWLINE
from penstock.connect.connectors.file.tracking import (
    FileOffset,
    files_of,
    head_of,
    names_many,
    parse_offsets,
    renamed,
    unread,
)
from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import STRING

FILENAME: Final = "filename"
_SLICE_BYTES_MAX: Final = 64 * 1024 * 1024
_READ_BYTES: Final = 4 * 1024 * 1024
_LINE_BYTES_MAX: Final = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Bytes:
    """What a task reads: bytes of one file, which may have another name than its source partition."""

    path: str
    inode: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Renamed:
    """Files that have new names: their offsets are committed under these, and nothing is read."""

    names: Mapping[str, FileOffset]


class FileStreamSourceConnector(SourceConnector):
    version: ClassVar[str] = "4.3.0"
    definition: ClassVar[ConfigDef] = ConfigDef(
        (
            ConfigKey(
                "file",
                ConfigType.STRING,
                None,
                Importance.HIGH,
                "What is read: a file, all files of a directory, or a pattern such as /var/log/*.log. Standard input"
                " cannot be read.",
            ),
            ConfigKey(
                "topic",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="The topic that lines are written to.",
                validator=non_empty,
            ),
            ConfigKey(
                "batch.size",
                ConfigType.INT,
                2000,
                Importance.LOW,
                "Without effect: a task reads a number of bytes, not of lines.",
                validator=at_least(1),
            ),
            ConfigKey(
                "format",
                ConfigType.STRING,
                "text",
                Importance.MEDIUM,
                "What a line is: text, json (any value, without a schema), or csv (the first line has the names).",
                validator=one_of(*FORMATS),
            ),
        )
    )
    poll_interval_s = 0.25

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        values = parse(self.definition, config)
        for mistake in self.check(config):
            raise mistake
        self._pattern: str = values["file"]
        self._topic: str = values["topic"]
        self._format: str = values["format"]

    @classmethod
    def check(cls, config: Mapping[str, str]) -> Sequence[ConfigException]:
        if config.get("file", "").strip():
            return ()
        return (
            ConfigException(
                "Invalid value null for configuration file: standard input cannot be read again after a restart; name a"
                " file, a directory or a pattern",
                "file",
            ),
        )

    def task_count(self, tasks_max: int) -> int:
        """One for each file."""
        return tasks_max if names_many(self._pattern) else 1

    def plan(self, offsets: Mapping[str, SourceOffset]) -> Sequence[Slice]:
        named = {json.loads(key).get(FILENAME): offset for key, offset in offsets.items()}
        known = parse_offsets(named)
        slices = []
        try:
            files = files_of(self._pattern)
            names = renamed(files, known)
            if names:
                return [Slice({FILENAME: min(names)}, None, _Renamed(names))]
            for each in unread(files, known):
                end = min(each.state.size, each.position + _SLICE_BYTES_MAX)
                # Tasks have a working directory of their own.
                part = _Bytes(os.path.abspath(each.state.path), each.state.inode, each.position, end)
                slices.append(Slice({FILENAME: each.name}, named.get(each.name), part))
        except OSError as error:
            raise _file_error(error) from error
        return slices

    def read(self, slice_: Slice) -> Iterator[SourceRows]:
        if isinstance(slice_.plan, _Renamed):
            yield from self._renamed(slice_.plan)
            return
        part: _Bytes = slice_.plan
        try:
            with open(part.path, "rb") as data:
                lines = line_reader(self._format, part.path)
                for content, end in _whole_lines(data, part.start, part.end):
                    offset = FileOffset(end, part.inode, head_of(part.path, end)).to_json()
                    for group in self._groups(lines, content, end - len(content)):
                        yield SourceRows(group, offset)
        except FileNotFoundError as error:  # removed since; the next plan finds that
            raise RetriableError(f"{part.path}: {error.strerror}") from error
        except OSError as error:
            raise _file_error(error) from error

    def _renamed(self, plan: _Renamed) -> Iterator[SourceRows]:
        (nothing,) = self._groups(_read_nothing, b"", 0)
        for name, offset in plan.names.items():
            yield SourceRows(nothing, offset.to_json(), {FILENAME: name})

    def _groups(self, lines: LineReader, content: bytes, position: int) -> Iterator[RecordGroup]:
        now_ms = time.time_ns() // 1_000_000
        for rows, value in lines(content, position):
            count = len(rows)
            yield RecordGroup(
                rows=rows,
                topic=pa.repeat(pa.scalar(self._topic, pa.string()), count),
                partition=pa.nulls(count, pa.int32()),
                timestamp=pa.repeat(pa.scalar(now_ms, pa.int64()), count),
                key=Column(None, pa.nulls(count)),
                value=value,
            )

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        for partition, offset in offsets:
            if not isinstance(partition.get(FILENAME), str):
                raise ConnectError(f"Partition objects should contain the key '{FILENAME}'")
            if offset is not None:
                FileOffset.parse(offset)


def _read_nothing(_content: bytes, _position: int) -> Iterator[tuple[pa.Array, Column]]:
    yield pa.array([], pa.int64()), Column(STRING, pa.array([], pa.string()))


def _whole_lines(data: BinaryIO, start: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Parts of the file that end with a line, and the position behind each. A line at `end` that is not whole is left;
    one that is longer than a slice is read to its own end, if that has been written."""
    data.seek(start)
    position, rest = start, b""
    while position + len(rest) < end or (rest and position == start):
        content = data.read(_READ_BYTES)
        if not content:
            return
        cut = content.rfind(NEWLINE) + 1
        if cut:
            whole = rest + content[:cut]
            position += len(whole)
            rest = content[cut:]
            yield whole, position
        else:
            rest += content
            if len(rest) > _LINE_BYTES_MAX:
                raise ConnectError(f"{data.name}: the line at byte {position} has more than {_LINE_BYTES_MAX} bytes")


def _file_error(error: OSError) -> Exception:
    wrong = isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError)
    return (ConnectError if wrong else RetriableError)(f"{error.filename}: {error.strerror or error}")
