"""FileStreamSinkConnector: records of topics as lines of a file.

As Kafka's: `file` names the file, and without it lines go to standard output. Ours are `format` and `guarantee`: with
exactly_once a ledger beside the file (`ledger.py`) says which bytes count. The file is on the machines where Spark's
tasks run: on a cluster, on a file system that they share.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import one_of, parse
from penstock.connect.connector import Batch, ConnectError, RetriableError, SinkConnector, SinkWriter
from penstock.connect.connectors.file.ledger import FileLedger
from penstock.connect.connectors.file.line_formats import FORMATS, LineWriter, line_writer
from penstock.connect.data.records import Failure, RecordGroup
from penstock.core.guarantee import Guarantee
from penstock.core.ids import TopicPartition

_UNFLUSHED_BYTES_MAX: Final = 8 * 1024 * 1024


class FileStreamSinkConnector(SinkConnector):
    version: ClassVar[str] = "4.3.0"
    definition: ClassVar[ConfigDef] = ConfigDef(
        (
            ConfigKey(
                "file",
                ConfigType.STRING,
                None,
                Importance.HIGH,
                "The file that lines are appended to; without it, they go to standard output.",
            ),
            ConfigKey(
                "format",
                ConfigType.STRING,
                "text",
                Importance.MEDIUM,
                "What a line is: text (the value's text form), json (the value as JSON), or csv (the fields of a"
                " struct, without a header line).",
                validator=one_of(*FORMATS),
            ),
        )
    )
    guarantees: ClassVar[Mapping[Guarantee, str]] = {
        "at_most_once": "",
        "at_least_once": "",
        "exactly_once": "a ledger beside the file",
    }

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        values = parse(self.definition, config)
        self._file = Path(values["file"]).absolute() if values["file"] else None
        self._format: str = values["format"]
        self._is_exactly_once = config.get("guarantee", "at_least_once") == "exactly_once"
        if self._is_exactly_once and self._file is None:
            raise ConfigException(
                "Invalid value exactly_once for configuration guarantee: standard output cannot be cut off; set file",
                "guarantee",
            )
        self._run = ""

    def start(self) -> None:
        if self._file is not None and not self._file.parent.is_dir():
            raise ConnectError(f"file: the directory {self._file.parent} does not exist; create it")
        if self._is_exactly_once:
            self._run = uuid.uuid4().hex
            try:
                self._ledger.begin(self._run)
            except OSError as error:
                raise _file_error(self._file, error) from error

    @property
    def _ledger(self) -> FileLedger:
        assert self._file is not None
        return FileLedger(self._file)

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        if not self._is_exactly_once:
            return None
        known = self._ledger.read()
        return {} if known is None else known.offsets

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        if not self._is_exactly_once:
            super().set_positions(positions)
        self._ledger.set_offsets(positions)

    def open_writer(self, task: int, guarantee: Guarantee) -> SinkWriter:
        run = self._run if guarantee == "exactly_once" else None
        return _FileWriter(self._file, run, line_writer(self._format))

    def commit(self, results: Sequence[Any], batch: Batch) -> None:
        if self._file is None:
            # Of the worker: tasks have a standard output of their own.
            for lines in results:
                sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
        if self._is_exactly_once:
            try:
                self._ledger.commit(self._run, batch.end_offsets)
            except OSError as error:
                raise _file_error(self._file, error) from error


class _FileWriter(SinkWriter):
    """Appends whole lines, many at a time, so that tasks and processes may append to one file."""

    def __init__(self, file: Path | None, run: str | None, lines: LineWriter) -> None:
        self._file = file
        self._run = run
        self._lines = lines
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def put(self, group: RecordGroup) -> Sequence[Failure]:
        content, failures = self._lines(group)
        self._waiting.append(content)
        self._waiting_bytes += len(content)
        if self._file is not None and self._waiting_bytes >= _UNFLUSHED_BYTES_MAX:
            self._append(self._file)
        return failures

    def finish(self) -> bytes | None:
        """The lines for standard output, if they go there."""
        if self._file is None:
            return b"".join(self._waiting)
        self._append(self._file)
        return None

    def _append(self, file: Path) -> None:
        content = b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        if not content:
            return
        try:
            if self._run is None:
                with file.open("ab", buffering=0) as data:
                    _write_all(data, content)
            else:
                with FileLedger(file).hold(self._run) as data:
                    data.write(content)
                    data.flush()
        except OSError as error:
            raise _file_error(file, error) from error


def _write_all(data: Any, content: bytes) -> None:
    written = data.write(content)
    while written < len(content):
        written += data.write(content[written:])


def _file_error(file: Path | None, error: OSError) -> Exception:
    """A full disk may be freed; a path that is wrong stays wrong."""
    wrong = isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError | FileNotFoundError)
    return (ConnectError if wrong else RetriableError)(f"{file}: {error.strerror or error}")
