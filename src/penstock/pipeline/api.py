"""Pipelines as Python programs: `p.read(...)`, DataFrames, `p.write(...)`, `p.run()`.

Owns the way from calls to the model (`spec.py`) and to the plan that `run.py` runs. Everything is checked when it is
said: a call with a mistake raises InvalidPipeline, whose one line names the caller's file and line. Spark starts with
the first `read`.

`penstock validate FILE.py` runs the program inside `checking`: sources are then empty, and `run` ends the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypedDict

from pydantic import TypeAdapter, ValidationError

from penstock.core.guarantee import Guarantee
from penstock.pipeline.call_origin import CallOrigin, caller
from penstock.pipeline.declaration.guarantee import refusals
from penstock.pipeline.declaration.spec import SOLE_SOURCE, PipelineHead, PipelineSpec
from penstock.pipeline.declaration.spec_errors import InvalidPipeline, explain
from penstock.pipeline.endpoints import Endpoint, Option, check_keywords
from penstock.pipeline.process_state import ProgramHost, process_wide
from penstock.pipeline.sinks.sink import OutputMode
from penstock.pipeline.sources.kinds import DeclaredSource
from penstock.pipeline.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SOURCE: Final[TypeAdapter[Source]] = TypeAdapter(DeclaredSource)


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """What `PipelineRun.execute` is given: the declaration and, from a program, what stands in for the transform."""

    spec: PipelineSpec
    # Where `module:function` is looked for first.
    directory: Path
    # What a program writes, by the sink's name (None for an only one); empty: `spec.transform` makes it.
    results: Mapping[str | None, DataFrame] = field(default_factory=dict)
    # Sinks that the program passed as objects, by their names; they need no import.
    functions: Mapping[str | None, Callable[..., Any]] = field(default_factory=dict)
    once: bool = False


class ProgramRun(Protocol):
    """What a `Pipeline` hands its reads and its plan to: a `PipelineRun`, or a check."""

    @property
    def spark(self) -> SparkSession: ...

    def read(self, name: str, source: Source) -> DataFrame: ...

    def execute(self, plan: PipelinePlan) -> None: ...


class ProgramChecked(BaseException):
    """Ends a program that is only checked. Not an Exception: a program's own `except` must not swallow it."""


class ProgramCheck:
    """The runs of a program that `penstock validate` checks: sources are empty, and `execute` ends the program."""

    def __init__(self, open_session: Callable[[], SparkSession]) -> None:
        # Called when the first source is read: a mistake before that needs no Spark.
        self._open_session = open_session
        self.pipelines: list[Pipeline] = []

    @cached_property
    def spark(self) -> SparkSession:
        return self._open_session().newSession()

    def read(self, name: str, source: Source) -> DataFrame:
        from penstock.pipeline.analysis import empty_rows

        if source.columns is None:
            message = "has no schema; a program can only be checked when its sources declare their columns"
            raise InvalidPipeline([caller().problem((name, "schema"), message)])
        return empty_rows(self.spark, source, source.columns)

    def execute(self, plan: PipelinePlan) -> None:
        raise ProgramChecked


@contextmanager
def hosting(open_run: Callable[[Pipeline], ProgramRun]) -> Iterator[None]:
    """Inside, a program that is run in this process gets its pipelines' runs from the command that runs it."""
    host = process_wide(ProgramHost)
    host.open_run = open_run
    try:
        yield
    finally:
        host.open_run = None


@contextmanager
def checking(open_session: Callable[[], SparkSession]) -> Iterator[ProgramCheck]:
    """Inside, pipelines are declared and not run."""
    check = ProgramCheck(open_session)

    def open_run(pipeline: Pipeline) -> ProgramRun:
        check.pipelines.append(pipeline)
        return check

    with hosting(open_run):
        yield check


class _Write(NamedTuple):
    rows: DataFrame
    sink: Endpoint
    mode: Mapping[str, OutputMode]  # the key `output_mode`, or nothing


class DeadLetterTopic(TypedDict):
    """`on_error={"dead_letters": "orders.dlq"}`."""

    dead_letters: str


class Interval(TypedDict):
    """`trigger={"interval": "5 seconds"}`."""

    interval: str


class Pipeline:
    """A pipeline that is built by calls. The keywords are the keys of a pipeline file."""

    @check_keywords
    def __init__(
        self,
        name: str,
        *,
        guarantee: Guarantee = "at_least_once",
        on_error: Literal["stop", "drop"] | DeadLetterTopic | None = None,
        trigger: Literal["available_now", "once"] | Interval | None = None,
        output_mode: OutputMode | None = None,
        bootstrap_servers: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        spark: Mapping[str, Option] | None = None,
    ) -> None:
        self._origin = caller()
        keys: dict[str, Any] = {
            "name": name,
            "guarantee": guarantee,
            "on_error": on_error,
            "trigger": trigger,
            "output_mode": output_mode,
            "bootstrap_servers": bootstrap_servers,
            "checkpoint": os.fspath(checkpoint) if isinstance(checkpoint, os.PathLike) else checkpoint,
            "spark": spark,
        }
        try:
            self._head = PipelineHead.model_validate({key: value for key, value in keys.items() if value is not None})
        except ValidationError as invalid:
            raise InvalidPipeline(explain(invalid, self._origin, PipelineHead)) from None
        self._sources: dict[str, Source] = {}
        self._writes: dict[str | None, _Write] = {}
        host = process_wide(ProgramHost)
        self._given_run: ProgramRun | None = host.open_run(self) if host.open_run is not None else None

    @property
    def spark(self) -> SparkSession:
        """The session in which this pipeline's DataFrames live; the first use starts it."""
        return self._run.spark

    @cached_property
    def _run(self) -> ProgramRun:
        """Reads and `run` use the same one. It is made when it is first used: that imports what runs pipelines."""
        if self._given_run is not None:
            return self._given_run
        from penstock.pipeline.run import PipelineRun

        return PipelineRun(self._head)

    @property
    def head(self) -> PipelineHead:
        return self._head

    def read(self, source: Endpoint, name: str | None = None) -> DataFrame:
        """A DataFrame of the source's rows, parsed and checked; SQL of `spark` knows it by `name`."""
        origin = caller()
        if name is None:
            name = SOLE_SOURCE if not self._sources else f"{SOLE_SOURCE}_{len(self._sources) + 1}"
        if name in self._sources:
            raise InvalidPipeline([origin.problem((name,), "a source of this name is read already; give another name")])
        try:
            model = _SOURCE.validate_python(source.keys)
        except ValidationError as invalid:
            raise InvalidPipeline(explain(invalid, origin)) from None
        frame = self._run.read(name, model)
        self._sources[name] = model
        frame.createOrReplaceTempView(name)
        return frame

    def write(
        self,
        rows: DataFrame,
        sink: Endpoint,
        name: str | None = None,
        *,
        output_mode: OutputMode | None = None,
    ) -> None:
        """Says where the rows go. A pipeline with several sinks names each: `name` is its name in `sinks`."""
        self._origin = caller()
        if not self._sources:
            raise InvalidPipeline([self._origin.problem(("source",), "nothing was read through this pipeline")])
        if self._writes and (name is None or None in self._writes):
            message = "a pipeline with several sinks has a name for each; pass name= to every write"
            raise InvalidPipeline([self._origin.problem(("sinks",), message)])
        if name in self._writes:
            message = "a sink of this name is written already; give another name"
            raise InvalidPipeline([self._origin.problem(("sinks", str(name)), message)])
        mode = {} if output_mode is None else {"output_mode": output_mode}
        self._writes[name] = _Write(rows, sink, mode)
        self.spec()

    def spec(self) -> PipelineSpec:
        """The declaration, checked. Raises InvalidPipeline."""
        if not self._writes:
            raise InvalidPipeline([self._origin.problem(("sink",), "nothing is written: call write before run")])
        spec = self._declared()
        problems = [self._origin.problem(refusal.path, refusal.reason) for refusal in refusals(spec)]
        if problems:
            raise InvalidPipeline(problems)
        return spec

    def plan(self, *, once: bool = False) -> PipelinePlan:
        spec = self.spec()
        results = {name: write.rows for name, write in self._writes.items()}
        functions = {name: write.sink.function for name, write in self._writes.items() if write.sink.function}
        directory = Path(self._origin.file).resolve().parent
        return PipelinePlan(spec, directory, results, functions, once)

    @property
    def origin(self) -> CallOrigin:
        """The call that declared the sink, or the pipeline."""
        return self._origin

    def run(self, *, once: bool = False) -> None:
        """Runs until it is stopped; with `once`, processes all available records and returns."""
        self._run.execute(self.plan(once=once))

    def _declared(self) -> PipelineSpec:
        sole = list(self._sources) == [SOLE_SOURCE]
        sources = {"source": self._sources[SOLE_SOURCE]} if sole else {"sources": self._sources}
        head = {key: getattr(self._head, key) for key in self._head.model_fields_set}
        if None in self._writes:
            sole_write = self._writes[None]
            sinks: dict[str, Any] = {"sink": sole_write.sink.keys, **sole_write.mode}
        else:
            sinks = {"sinks": {name: {**write.sink.keys, **write.mode} for name, write in self._writes.items()}}
        try:
            return PipelineSpec.model_validate({**head, **sources, **sinks})
        except ValidationError as invalid:
            raise InvalidPipeline(explain(invalid, self._origin)) from None
