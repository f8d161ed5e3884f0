"""The conformance suite finds connectors that break what a worker relies on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock.connect import (
    STRING,
    Batch,
    Column,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Failure,
    Guarantee,
    RecordGroup,
    SinkConnector,
    SinkWriter,
    Slice,
    SourceConnector,
    SourceOffset,
    SourceRows,
    TopicPartition,
    offset_of,
    parse,
)
from penstock.testing.connectors import (
    TEXT,
    RecordShape,
    SinkAdapter,
    SinkConformance,
    SourceAdapter,
    SourceConformance,
    number_in,
)
from penstock.testing.connectors.sink_worker import CrashPoint

FILE = ConfigKey("file", ConfigType.STRING, doc="A file.")


class Writer(SinkWriter):
    def __init__(self, file: Path) -> None:
        self._file = file

    def put(self, group: RecordGroup) -> Sequence[Failure]:
        with self._file.open("a") as output:
            output.writelines(f"{each}\n" for each in group.value.values.to_pylist())
        return ()

    def finish(self) -> None:
        pass


class LosingWriter(Writer):
    """Drops the first record of a group."""

    def put(self, group: RecordGroup) -> Sequence[Failure]:
        return super().put(group.take(pa.array(range(1, len(group)), pa.int64())))


class RaisingWriter(Writer):
    """Raises for a single record."""

    def put(self, group: RecordGroup) -> Sequence[Failure]:
        if group.value.values.null_count:
            raise ValueError("a tombstone")
        return super().put(group)


class Lines(SinkConnector):
    definition = ConfigDef((FILE,))
    version = "1"
    writer: ClassVar[type[Writer]] = Writer

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        self.file = Path(parse(self.definition, config)["file"])

    def open_writer(self, task: int, guarantee: Guarantee) -> SinkWriter:
        return self.writer(self.file)


class LosingLines(Lines):
    writer = LosingWriter


class RaisingLines(Lines):
    writer = RaisingWriter


class UnfencedLines(Lines):
    """Says exactly_once, and keeps positions apart from the records."""

    guarantees: ClassVar[Mapping[Guarantee, str]] = {"exactly_once": "hope"}

    @property
    def ledger(self) -> Path:
        return self.file.with_suffix(".ledger")

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        known = json.loads(self.ledger.read_text()) if self.ledger.exists() else []
        return {TopicPartition(topic, partition): offset for topic, partition, offset in known}

    def commit(self, results: Sequence[Any], batch: Batch) -> None:
        offsets = {**self.positions([]), **batch.end_offsets}
        self.ledger.write_text(json.dumps([[*partition, offset] for partition, offset in offsets.items()]))


class UndocumentedLines(Lines):
    definition = ConfigDef((ConfigKey("file", ConfigType.STRING),))


class LinesAdapter(SinkAdapter):
    connector: ClassVar[type[SinkConnector]] = Lines
    accepts: ClassVar[Sequence[RecordShape]] = (TEXT,)

    def config(self) -> Mapping[str, str]:
        return {"file": str(self.directory / "out")}

    def written(self) -> Sequence[int]:
        file = self.directory / "out"
        lines = file.read_text().splitlines() if file.exists() else []
        return [number for line in lines if (number := number_in(line)) is not None]


class TestLines(SinkConformance):
    """The simplest sink passes."""

    adapter = LinesAdapter


def sink(kind: type[SinkConnector]) -> SinkConformance:
    class Adapter(LinesAdapter):
        connector = kind

    class Conformance(SinkConformance):
        adapter = Adapter

    return Conformance()


def test_tests_that_a_sink_has_no_promise_for_are_taken_out() -> None:
    name = "test_an_earlier_run_commits_nothing_more"
    assert vars(TestLines)[name] is None
    assert callable(getattr(sink(UnfencedLines), name))


@pytest.mark.parametrize(
    ("kind", "call", "message"),
    [
        (
            LosingLines,
            lambda suite, path: suite.test_all_records_are_written_in_their_order(path, "at_least_once"),
            "lost: ",
        ),
        (
            RaisingLines,
            lambda suite, path: suite.test_tombstones_are_written_or_reported(path, "at_least_once"),
            "a tombstone",
        ),
        (UndocumentedLines, lambda suite, _path: suite.test_the_definition_is_complete(), "without doc"),
        (UnfencedLines, lambda suite, path: suite.test_an_earlier_run_commits_nothing_more(path), "replaced"),
        (
            UnfencedLines,
            lambda suite, path: suite.test_a_crash_leaves_what_the_guarantee_promises(
                path, "exactly_once", CrashPoint.BEFORE_COMMIT
            ),
            "written twice",
        ),
    ],
)
def test_a_sink_that_breaks_a_rule_is_found(
    kind: type[SinkConnector], call: Callable[[SinkConformance, Path], None], message: str, tmp_path: Path
) -> None:
    with pytest.raises((AssertionError, ValueError), match=message):
        call(sink(kind), tmp_path)


class Numbers(SourceConnector):
    """A line is a record; the offset counts lines."""

    definition = ConfigDef((FILE,))
    version = "1"
    offset_error: ClassVar[int] = 0

    def lines(self) -> list[str]:
        file = Path(self.config["file"])
        return file.read_text().splitlines() if file.exists() else []

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        parse(self.definition, config)

    def plan(self, offsets: Mapping[str, SourceOffset]) -> Sequence[Slice]:
        partition = {"file": self.config["file"]}
        offset = offset_of(offsets, partition)
        done = 0 if offset is None else offset["lines"]
        return [Slice(partition, offset, done)] if len(self.lines()) > done else []

    def read(self, slice_: Slice) -> Iterator[SourceRows]:
        for number, line in enumerate(self.lines()[slice_.plan :], start=slice_.plan + 1):
            group = RecordGroup(
                pa.array([0]),
                pa.array(["lines"]),
                pa.nulls(1, pa.int32()),
                pa.nulls(1, pa.int64()),
                Column(None, pa.nulls(1)),
                Column(STRING, pa.array([line])),
            )
            yield SourceRows(group, {"lines": number + self.offset_error})


class SkippingNumbers(Numbers):
    """The offset is one too far."""

    offset_error = 1


class DoublingNumbers(Numbers):
    def plan(self, offsets: Mapping[str, SourceOffset]) -> Sequence[Slice]:
        return [*super().plan(offsets), *super().plan(offsets)]


class NumbersAdapter(SourceAdapter):
    connector: ClassVar[type[SourceConnector]] = Numbers

    def config(self) -> Mapping[str, str]:
        return {"file": str(self.directory / "in")}

    def put(self, numbers: Sequence[int]) -> None:
        with (self.directory / "in").open("a") as output:
            output.writelines(f"{number}\n" for number in numbers)

    def number_of(self, value: Any) -> int:
        return int(value)


class TestNumbers(SourceConformance):
    """The simplest source passes."""

    adapter = NumbersAdapter


@pytest.mark.parametrize(
    ("kind", "call", "message"),
    [
        (SkippingNumbers, SourceConformance.test_reading_resumes_from_every_offset, "lost"),
        (SkippingNumbers, SourceConformance.test_all_records_are_read_once_and_in_order, "lost"),
        (DoublingNumbers, SourceConformance.test_slices_of_a_plan_share_no_record, "two slices"),
    ],
)
def test_a_source_that_breaks_a_rule_is_found(
    kind: type[SourceConnector], call: Callable[[SourceConformance, Path], None], message: str, tmp_path: Path
) -> None:
    class Adapter(NumbersAdapter):
        connector = kind

    class Conformance(SourceConformance):
        adapter = Adapter

    with pytest.raises(AssertionError, match=message):
        call(Conformance(), tmp_path)
