"""What Spark thinks of a pipeline before it runs: every query, condition and column, on sources without rows.

Owns the check that `penstock validate` makes with a session. Sources become empty streams of their declared columns;
nothing connects to a broker or a database, and no query starts. Functions of the author's are called, on such streams.

Where a source's columns are not declared, SQL is parsed but names cannot be checked; a note says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.pipeline.declaration.function_reference import FunctionMissing, argument_count, load_function
from penstock.pipeline.declaration.sink_spec import FileSink, FunctionSink, TableSink, TopicSink
from penstock.pipeline.declaration.source_spec import AnySource, FileSource, TableSource
from penstock.pipeline.declaration.spec import SOLE_SOURCE, PipelineSpec
from penstock.pipeline.declaration.spec_errors import KeyPath, Origin, Problem
from penstock.pipeline.declaration.transform_spec import PythonStep, SqlStep
from penstock.pipeline.rows.event_time import with_event_time
from penstock.pipeline.rows.output_mode import output_mode
from penstock.pipeline.rows.transform_chain import NotADataFrame, apply_step, last_name
from penstock.pipeline.spark.messages import explain_sql, first_sentence, no_such, quiet_pyspark

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipeline.api import PipelinePlan


_LOGICAL_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical"


class TextOrigin(Origin, Protocol):
    """Knows, besides, where a line of a text stands."""

    def problem_in_text(self, path: KeyPath, message: str, line: int, position: int) -> Problem: ...


@dataclass(slots=True)
class Findings:
    problems: list[Problem] = field(default_factory=list)
    # Worth a person's eye, and no reason not to run.
    notes: list[Problem] = field(default_factory=list)


def check_with_spark(spec: PipelineSpec, spark: SparkSession, origin: TextOrigin, directory: Path) -> Findings:
    """Checks a declared pipeline; `directory` is where its functions are looked for."""
    return _Check(spec, spark.newSession(), origin, directory).declared()


def check_plan_with_spark(plan: PipelinePlan, origin: TextOrigin) -> Findings:
    """Checks a pipeline whose transform is a DataFrame already, against its sink."""
    assert plan.result is not None  # a plan from a program has one
    return _Check(plan.spec, plan.result.sparkSession, origin, plan.directory, plan.function).given(plan.result)


def empty_rows(spark: SparkSession, source: AnySource, columns: str) -> DataFrame:
    """A DataFrame of these columns, streaming if the source is, as the transform sees it: with its watermark."""
    from pyspark.sql.functions import from_json, lit

    if source.static:
        return spark.createDataFrame([], columns)
    ticks = spark.readStream.format("rate").load()
    frame = ticks.select(from_json(lit(None).cast("string"), columns).alias("row")).select("row.*")
    return with_event_time(frame, source)


class _Check:
    def __init__(
        self,
        spec: PipelineSpec,
        spark: SparkSession,
        origin: TextOrigin,
        directory: Path,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self._spec = spec
        self._spark = spark
        self._origin = origin
        self._directory = directory
        self._function = function
        self._found = Findings()

    def declared(self) -> Findings:
        with quiet_pyspark():
            frames = self._sources()
            if frames is None:
                self._parse_steps(0)
            else:
                result = self._steps(frames)
                if result is not None:
                    self._sink(result)
            self._function_sink()
        self._found.problems.sort(key=lambda problem: (problem.line, problem.column))
        return self._found

    def given(self, result: DataFrame) -> Findings:
        with quiet_pyspark():
            self._sink(result)
            self._function_sink()
        return self._found

    def _problem(self, path: KeyPath, message: str) -> None:
        self._found.problems.append(self._origin.problem(path, message))

    def _sql_problem(self, path: KeyPath, failure: PySparkException, views: list[str] | None = None) -> None:
        mistake = explain_sql(failure, views or ())
        if mistake.line:
            problem = self._origin.problem_in_text(path, mistake.message, mistake.line, mistake.position)
            self._found.problems.append(problem)
        else:
            self._problem(path, mistake.message)

    def _sources(self) -> dict[str, DataFrame] | None:
        """None if a source's columns are unknown, or so wrong that nothing more can be said."""
        frames: dict[str, DataFrame] = {}
        for name, source in self._spec.all_sources.items():
            at: KeyPath = ("source",) if self._spec.sources is None and name == SOLE_SOURCE else ("sources", name)
            if source.columns is None:
                note = "has no schema: its columns are inferred at the first start, and SQL is only checked for syntax"
                self._found.notes.append(self._origin.problem(at, note))
                continue
            frame = self._source(at, source, source.columns)
            if frame is not None:
                frames[name] = frame
                frame.createOrReplaceTempView(name)
        return frames if len(frames) == len(self._spec.all_sources) else None

    def _source(self, at: KeyPath, source: AnySource, columns: str) -> DataFrame | None:
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType, TimestampType

        try:
            schema = StructType.fromDDL(columns)
        except PySparkException as failure:
            self._problem((*at, "schema"), f"expected columns as in CREATE TABLE: {explain_sql(failure).message}")
            return None
        if not isinstance(schema, StructType):
            self._problem((*at, "schema"), "expected columns as in CREATE TABLE, such as 'id BIGINT, name STRING'")
            return None
        if isinstance(source, TableSource):
            return empty_rows(self._spark, source, columns)
        named = {"timestamp": (source.timestamp,) if source.timestamp else (), "dedupe": source.dedupe or ()}
        wrong = False
        for key, names in named.items():
            for name in names:
                if name not in schema.names:
                    self._problem((*at, key), no_such("column", name, schema.names))
                    wrong = True
        if source.watermark and not wrong and not isinstance(schema[str(source.timestamp)].dataType, TimestampType):
            found = schema[str(source.timestamp)].dataType.simpleString().upper()
            self._problem((*at, "timestamp"), f"'{source.timestamp}' is {found}; event time is a TIMESTAMP")
            wrong = True
        if wrong:
            return None
        if source.dedupe and not source.watermark and not (isinstance(source, FileSource) and source.static):
            note = "without a watermark, every key is remembered for ever"
            self._found.notes.append(self._origin.problem((*at, "dedupe"), note))
        frame = empty_rows(self._spark, source, columns)
        where: KeyPath = ("expect",) if self._spec.expect else (*at, "expect")
        for rule, condition in source.expect.items():
            self._condition((*where, rule), frame, condition)
        return frame

    def _condition(self, path: KeyPath, frame: DataFrame, condition: str) -> None:
        found = self._expression(path, frame, condition)
        if found not in (None, "boolean"):
            self._problem(path, f"expected a condition that is true or false, got {str(found).upper()}")

    def _expression(self, path: KeyPath, frame: DataFrame, expression: str) -> str | None:
        """The type of an expression over the frame's columns; None if it has a problem."""
        from pyspark.errors import PySparkException

        try:
            return frame.selectExpr(expression).schema[0].dataType.simpleString()
        except PySparkException as failure:
            self._sql_problem(path, failure)
            return None

    def _steps(self, frames: dict[str, DataFrame]) -> DataFrame | None:
        from pyspark.errors import PySparkException

        for index, step in enumerate(self._spec.transform):
            path: KeyPath = ("transform", index, "python" if isinstance(step, PythonStep) else "sql")
            if isinstance(step, SqlStep) and not self._is_query(path, step):
                self._parse_steps(index + 1)
                return None
            try:
                frames[self._spec.step_name(index)] = apply_step(
                    self._spark, self._spec, index, frames, self._directory
                )
            except (FunctionMissing, NotADataFrame) as missing:
                self._problem(path, str(missing))
            except PySparkException as failure:
                self._sql_problem(path, failure, list(frames))
            except Exception as failure:  # whatever the author's function does
                self._problem(path, f"raised {type(failure).__name__}: {' '.join(str(failure).split())}")
            if self._spec.step_name(index) not in frames:
                self._parse_steps(index + 1)
                return None
        return frames[last_name(self._spec)]

    def _parse_steps(self, start: int) -> None:
        for index, step in enumerate(self._spec.transform[start:], start):
            if isinstance(step, SqlStep):
                self._is_query(("transform", index, "sql"), step)

    def _is_query(self, path: KeyPath, step: SqlStep) -> bool:
        """Parses only: `spark.sql` would carry out a statement that changes something."""
        from pyspark.errors import PySparkException

        try:
            plan = self._spark._jsparkSession.sessionState().sqlParser().parsePlan(step.sql)
        except PySparkException as failure:
            self._sql_problem(path, failure)
            return False
        if self._changes_something(plan):
            self._problem(path, "expected a query; a transform must not change anything")
            return False
        return True

    def _changes_something(self, plan: Any) -> bool:
        jvm = self._spark._jvm
        assert jvm is not None  # a classic session has one; pipelines run on no other
        is_instance = jvm.py4j.reflection.TypeUtil.isInstanceOf
        if any(is_instance(f"{_LOGICAL_PLANS}.{name}", plan) for name in ("Command", "ParsedStatement")):
            return True
        children = plan.children()
        return any(self._changes_something(children.apply(index)) for index in range(children.length()))

    def _sink(self, result: DataFrame) -> None:
        from pyspark.errors import PySparkException

        sink = self._spec.sink
        if not result.isStreaming:
            self._problem(("transform",), "the result has nothing of a source that goes on arriving")
            return
        if isinstance(sink, TableSink):
            self._require_columns(("sink", "key"), result, sink.key or ())
        elif isinstance(sink, FileSink):
            self._require_columns(("sink", "partition_by"), result, sink.partition_by or ())
        elif isinstance(sink, TopicSink):
            self._topic_sink(sink, result)
        try:
            output_mode(self._spec, result)
        except PySparkException as failure:
            self._problem(("output_mode",) if self._spec.output_mode else ("sink",), self._not_in_this_mode(failure))

    def _not_in_this_mode(self, failure: PySparkException) -> str:
        text = first_sentence(str(failure))
        if self._spec.output_mode is None and "without watermark" in text:
            return (
                "rows of an aggregation change until a watermark closes them, and this sink can only append: give the"
                " source a timestamp and a watermark and group by a window, or write a table with mode: upsert, or set"
                " output_mode: update to write every change"
            )
        return text

    def _topic_sink(self, sink: TopicSink, result: DataFrame) -> None:
        for key in sink.key or ():
            self._expression(("sink", "key"), result, key)
        for name, expression in sink.headers.items():
            self._expression(("sink", "headers", name), result, expression)
        if sink.partition is not None:
            found = self._expression(("sink", "partition"), result, sink.partition)
            if found not in (None, "int", "bigint", "smallint", "tinyint"):
                self._problem(("sink", "partition"), f"expected a whole number, got {str(found).upper()}")
        if sink.format in ("text", "binary"):
            if sink.value is not None:
                self._expression(("sink", "value"), result, sink.value)
            elif "value" not in result.columns:
                message = f"format {sink.format} writes the column 'value', and there is none: name one as sink.value"
                self._problem(("sink", "format"), message)

    def _require_columns(self, path: KeyPath, result: DataFrame, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in result.columns:
                self._problem(path, no_such("column", name, result.columns))

    def _function_sink(self) -> None:
        sink = self._spec.sink
        if not isinstance(sink, FunctionSink):
            return
        try:
            function = self._function or load_function(sink.python, self._directory)
        except FunctionMissing as missing:
            self._problem(("sink", "python"), str(missing))
            return
        needed = 2 if self._spec.guarantee == "exactly_once" else 1
        if argument_count(function) < needed:
            what = "the DataFrame and the batch id" if needed == 2 else "the DataFrame"
            self._problem(("sink", "python"), f"the function must take {what}")
