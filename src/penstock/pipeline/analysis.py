"""Applies the transform of a pipeline, step by step, and names every mistake with its place.

A run analyses the DataFrames of its sources (`analyse`), so that each query is analysed once and mistakes come with
their line. `penstock validate` has no brokers: its sources are empty streams of their declared columns; nothing
connects to a broker or a database, and no query starts. The author's functions are called in both cases. Where a
source's columns are not declared, validate can only parse the SQL; a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.pipeline.declaration.function_reference import FunctionMissing
from penstock.pipeline.declaration.spec import SOLE_SOURCE, PipelineSpec
from penstock.pipeline.declaration.spec_errors import Origin, Problem, key_text
from penstock.pipeline.declaration.transform_spec import PythonStep, SqlStep
from penstock.pipeline.declaration.verdicts import KeyPath
from penstock.pipeline.rows.event_time import with_event_time
from penstock.pipeline.rows.output_mode import output_mode
from penstock.pipeline.rows.transform_chain import NotADataFrame, apply_step
from penstock.pipeline.sources.source import Source
from penstock.pipeline.spark.internals import is_query, unbounded_state
from penstock.pipeline.spark.messages import explain_sql, first_sentence, no_such, quiet_pyspark

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.pipeline.api import PipelinePlan


_UNBOUNDED: Final = {
    "join": "without watermarks, the join keeps every row of both streams in its state for ever: give both sources a"
    " timestamp and a watermark, and bound the join by time: ... AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR",
    "aggregation": "without a watermark, every window and every time is kept in the state for ever: give the source a"
    " timestamp and a watermark, and group by a window of that timestamp",
    "deduplication": "without a watermark, every key is remembered for ever: give the source a timestamp and a"
    " watermark",
}


class TextOrigin(Origin, Protocol):
    """Knows, besides, where a line of a text stands."""

    def problem_in_text(self, path: KeyPath, message: str, line: int, position: int) -> Problem: ...


@dataclass(slots=True)
class Findings:
    problems: list[Problem] = field(default_factory=list)
    # Worth a person's eye, and no reason not to run.
    notes: list[Problem] = field(default_factory=list)
    # The rows for each sink and their output mode, by its name (None with `sink`), if there are no problems.
    results: dict[str | None, tuple[DataFrame, str]] = field(default_factory=dict, compare=False)


class KeyOrigin:
    """The origin of a declaration whose file is unknown: a problem has its key only."""

    def problem(self, path: KeyPath, message: str) -> Problem:
        return Problem("", 0, key_text(path), message)

    def problem_in_text(self, path: KeyPath, message: str, line: int, position: int) -> Problem:
        return self.problem(path, f"{message} (line {line}, position {position + 1} of the SQL)")

    def shown(self, path: KeyPath, value: Any) -> str | None:
        return None


ReadSource = Callable[[str, Source], "DataFrame"]
"""Called with a source and its name in SQL. Raises Spark's AnalysisException for mistakes in its settings."""


def analyse(
    spec: PipelineSpec,
    spark: SparkSession,
    origin: TextOrigin,
    directory: Path,
    read: ReadSource,
    *,
    checks_sinks: bool = True,
) -> Findings:
    """For a run: over the DataFrames that `read` returns, in the run's own session. A preview writes to no sink."""
    return _Check(spec, spark, origin, directory, read=read).declared(checks_sinks=checks_sinks)


def check_with_spark(spec: PipelineSpec, spark: SparkSession, origin: TextOrigin, directory: Path) -> Findings:
    """Checks a declared pipeline; `directory` is where its functions are looked for."""
    return _Check(spec, spark.newSession(), origin, directory).declared()


def check_plan_with_spark(plan: PipelinePlan, origin: TextOrigin) -> Findings:
    """Checks a pipeline whose results are DataFrames already, against its sinks."""
    spark = next(iter(plan.results.values())).sparkSession  # a plan from a program has at least one
    return _Check(plan.spec, spark, origin, plan.directory, plan.functions).given(plan.results)


def empty_rows(spark: SparkSession, source: Source, columns: str) -> DataFrame:
    """A DataFrame of these columns, streaming if the source is, as the transform sees it: with its watermark."""
    from pyspark.sql.functions import from_json, lit

    if source.is_static:
        return spark.createDataFrame([], columns)
    ticks = spark.readStream.format("rate").load()
    frame = ticks.select(from_json(lit(None).cast("string"), columns).alias("row")).select("row.*")
    return with_event_time(frame, source)


def state_notes(spec: PipelineSpec, result: DataFrame) -> Iterator[tuple[KeyPath, str]]:
    """What is to be said of state that grows for ever, and the keys that it is about."""
    for kind in dict.fromkeys(unbounded_state(result)):
        path: KeyPath = ("transform",)
        if kind == "deduplication":
            unbounded = [name for name, source in spec.all_sources.items() if source.event_time.dedupe]
            if unbounded:
                path = ("source", "dedupe") if unbounded[0] == SOLE_SOURCE else ("sources", unbounded[0], "dedupe")
        yield path, _UNBOUNDED[kind]


class _Check:
    def __init__(
        self,
        spec: PipelineSpec,
        spark: SparkSession,
        origin: TextOrigin,
        directory: Path,
        functions: Mapping[str | None, Callable[..., Any]] | None = None,
        read: ReadSource | None = None,
    ) -> None:
        self.spec = spec
        self.directory = directory
        self.functions = functions or {}
        self._spark = spark
        self._origin = origin
        self._read = read
        self._found = Findings()

    def declared(self, *, checks_sinks: bool = True) -> Findings:
        with quiet_pyspark():
            frames = self._sources()
            if frames is None:
                self._parse_steps(0)
            else:
                complete = self._steps(frames)
                for branch in self.spec.branches if complete else ():
                    if checks_sinks:
                        self._sink(branch, frames[branch.rows_name])
                    else:
                        self._found.results[branch.sink_name] = (frames[branch.rows_name], "append")
            if checks_sinks:
                self._sink_settings()
        self._found.problems.sort(key=lambda problem: (problem.line, problem.column))
        return self._found

    def given(self, results: Mapping[str | None, DataFrame]) -> Findings:
        with quiet_pyspark():
            for branch in self.spec.branches:
                self._sink(branch, results[branch.sink_name])
            self._sink_settings()
        return self._found

    def _sink_settings(self) -> None:
        for branch in self.spec.branches:
            branch.sink.writer().check_settings(_BranchCheck(self, branch))

    def problem(self, path: KeyPath, message: str) -> None:
        self._found.problems.append(self._origin.problem(path, message))

    def _sql_problem(self, path: KeyPath, failure: PySparkException, views: list[str] | None = None) -> None:
        mistake = explain_sql(failure, views or ())
        if mistake.line:
            problem = self._origin.problem_in_text(path, mistake.message, mistake.line, mistake.position)
            self._found.problems.append(problem)
        else:
            self.problem(path, mistake.message)

    def _sources(self) -> dict[str, DataFrame] | None:
        """None if a source's columns are unknown, or so wrong that nothing more can be said."""
        frames: dict[str, DataFrame] = {}
        for name, source in self.spec.all_sources.items():
            at = self.spec.source_path(name)
            if self._read is not None:
                found = self._real_source(at, name, source, self._read)
                if found is not None:
                    frames[name] = found
                    found.createOrReplaceTempView(name)
                continue
            if source.columns is None:
                note = "has no schema: its columns are inferred at the first start, and SQL is only checked for syntax"
                self._found.notes.append(self._origin.problem(at, note))
                continue
            frame = self._source(at, source, source.columns)
            if frame is not None:
                frames[name] = frame
                frame.createOrReplaceTempView(name)
        return frames if len(frames) == len(self.spec.all_sources) else None

    def _real_source(self, at: KeyPath, name: str, source: Source, read: ReadSource) -> DataFrame | None:
        from pyspark.errors import AnalysisException, ParseException

        try:
            frame = read(name, source)
        except (AnalysisException, ParseException) as failure:
            # Only an analysis of the declared columns can say which key is wrong.
            before = len(self._found.problems)
            if source.columns is not None:
                self._source(at, source, source.columns)
            if len(self._found.problems) == before:
                self._sql_problem(at, failure)
            return None
        return frame if self._has_event_time(at, source, frame.schema) else None

    def _source(self, at: KeyPath, source: Source, columns: str) -> DataFrame | None:
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

        try:
            schema = StructType.fromDDL(columns)
        except PySparkException as failure:
            self.problem((*at, "schema"), f"expected columns as in CREATE TABLE: {explain_sql(failure).message}")
            return None
        if not isinstance(schema, StructType):
            self.problem((*at, "schema"), "expected columns as in CREATE TABLE, such as 'id BIGINT, name STRING'")
            return None
        if not self._has_event_time(at, source, schema):
            return None
        frame = empty_rows(self._spark, source, columns)
        where: KeyPath = ("expect",) if self.spec.expect else (*at, "expect")
        for rule, condition in source.expectations.items():
            self._condition((*where, rule), frame, condition)
        return frame

    def _has_event_time(self, at: KeyPath, source: Source, schema: StructType) -> bool:
        """Whether the columns that the source's event time needs exist, and have the right type."""
        from pyspark.sql.types import TimestampType

        time = source.event_time
        wrong = False
        for key, names in {"timestamp": (time.column,) if time.column else (), "dedupe": time.dedupe}.items():
            for name in names:
                if name not in schema.names:
                    self.problem((*at, key), no_such("column", name, schema.names))
                    wrong = True
        if time.watermark and not wrong and not isinstance(schema[str(time.column)].dataType, TimestampType):
            found = schema[str(time.column)].dataType.simpleString().upper()
            self.problem((*at, "timestamp"), f"'{time.column}' is {found}; event time is a TIMESTAMP")
            wrong = True
        return not wrong

    def _condition(self, path: KeyPath, frame: DataFrame, condition: str) -> None:
        found = self.expression_type(path, frame, condition)
        if found not in (None, "boolean"):
            self.problem(path, f"expected a condition that is true or false, got {str(found).upper()}")

    def expression_type(self, path: KeyPath, frame: DataFrame, expression: str) -> str | None:
        """The type of an expression over the frame's columns; None if it has a problem."""
        from pyspark.errors import PySparkException

        try:
            return frame.selectExpr(expression).schema[0].dataType.simpleString()
        except PySparkException as failure:
            self._sql_problem(path, failure)
            return None

    def _steps(self, frames: dict[str, DataFrame]) -> bool:
        """Adds the rows of each step to `frames`. False: some step has a problem."""
        from pyspark.errors import PySparkException

        for index, step in enumerate(self.spec.transform):
            path: KeyPath = ("transform", index, "python" if isinstance(step, PythonStep) else "sql")
            if isinstance(step, SqlStep) and not self._is_query(path, step):
                self._parse_steps(index + 1)
                return False
            try:
                frames[self.spec.step_name(index)] = apply_step(self._spark, self.spec, index, frames, self.directory)
            except (FunctionMissing, NotADataFrame) as missing:
                self.problem(path, str(missing))
            except PySparkException as failure:
                self._sql_problem(path, failure, list(frames))
            except Exception as failure:  # whatever the author's function does
                self.problem(path, f"raised {type(failure).__name__}: {' '.join(str(failure).split())}")
            if self.spec.step_name(index) not in frames:
                self._parse_steps(index + 1)
                return False
        return True

    def _parse_steps(self, start: int) -> None:
        for index, step in enumerate(self.spec.transform[start:], start):
            if isinstance(step, SqlStep):
                self._is_query(("transform", index, "sql"), step)

    def _is_query(self, path: KeyPath, step: SqlStep) -> bool:
        from pyspark.errors import PySparkException

        try:
            if is_query(self._spark, step.sql):
                return True
        except PySparkException as failure:
            self._sql_problem(path, failure)
            return False
        self.problem(path, "expected a query; a transform must not change anything")
        return False

    def _sink(self, branch: PipelineSpec, result: DataFrame) -> None:
        from pyspark.errors import PySparkException

        if not result.isStreaming:
            at: KeyPath = ("transform",) if branch.sink.rows_from is None else (*branch.sink_path, "from")
            self.problem(at, "the result has nothing of a source that goes on arriving")
            return
        for path, note in state_notes(branch, result):
            problem = self._origin.problem(path, note)
            if problem not in self._found.notes:
                self._found.notes.append(problem)
        branch.sink.writer().check_result(_BranchCheck(self, branch), result)
        try:
            self._found.results[branch.sink_name] = (result, output_mode(branch, result))
        except PySparkException as failure:
            self.problem(
                branch.output_mode_path if branch.output_mode else branch.sink_path,
                _not_in_this_mode(branch, failure),
            )

    def require_columns(self, path: KeyPath, frame: DataFrame, names: Sequence[str]) -> None:
        for name in names:
            if name not in frame.columns:
                self.problem(path, no_such("column", name, frame.columns))


@dataclass(frozen=True, slots=True)
class _BranchCheck:
    """The check as one sink sees it, to whom its keys begin with `sink`."""

    check: _Check
    spec: PipelineSpec

    @property
    def directory(self) -> Path:
        return self.check.directory

    @property
    def function(self) -> Callable[..., Any] | None:
        return self.check.functions.get(self.spec.sink_name)

    def problem(self, path: KeyPath, message: str) -> None:
        self.check.problem(self._path(path), message)

    def expression_type(self, path: KeyPath, frame: DataFrame, expression: str) -> str | None:
        return self.check.expression_type(self._path(path), frame, expression)

    def require_columns(self, path: KeyPath, frame: DataFrame, names: Sequence[str]) -> None:
        self.check.require_columns(self._path(path), frame, names)

    def _path(self, path: KeyPath) -> KeyPath:
        return (*self.spec.sink_path, *path[1:]) if path[:1] == ("sink",) else path


def _not_in_this_mode(branch: PipelineSpec, failure: PySparkException) -> str:
    text = first_sentence(str(failure))
    if branch.output_mode is None and "without watermark" in text:
        return (
            "rows of an aggregation change until a watermark closes them, and this sink can only append: give the"
            " source a timestamp and a watermark and group by a window, or write a table with mode: upsert, or set"
            " output_mode: update to write every change"
        )
    return text
