"""One run of a pipeline: sources -> transform -> sinks, under supervision.

`PipelineRun` owns what belongs to one run (session, brokers, checkpoint, reads with their dead letters, resources) and
the order of a start: what brokers refuse first, then the checkpoint's identity, the analysis of the SQL, the sinks, the
queries. The command, the engine and programs all run pipelines through it.

A pipeline with `sink` is one query, which also writes the dead letters. One with `sinks` is a query for each of them,
and one more for the dead letters: each has its own progress, in a directory below the pipeline's checkpoint, so that
no sink waits for another and a bad row is published once.

Invariants:
- Each check is made once: brokers are asked once for each cluster, and each query is analysed once, on the DataFrames
  that run.
- A start that fails leaves the checkpoint as it was.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.core.error_table import EXPRESSION_FAILED
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.analysis import KeyOrigin, TextOrigin, analyse, state_notes
from penstock.pipeline.brokers import Brokers
from penstock.pipeline.checkpoint import SINKS_DIRECTORY, Checkpoint
from penstock.pipeline.declaration.redaction import redacted
from penstock.pipeline.declaration.spec import EveryInterval, PipelineHead, PipelineSpec
from penstock.pipeline.declaration.spec_errors import InvalidPipeline, key_text
from penstock.pipeline.declaration.spec_values import duration_ms
from penstock.pipeline.failure import PipelineFailed, classify
from penstock.pipeline.group_mirror import GroupMirror
from penstock.pipeline.progress import BatchProgress, Tally
from penstock.pipeline.query_group import run_together
from penstock.pipeline.reachability import BrokerWatch
from penstock.pipeline.rows.bad_rows import OnBadRow
from penstock.pipeline.rows.dead_letters import joined, letter_rows
from penstock.pipeline.rows.one_pass import in_one_pass
from penstock.pipeline.rows.output_mode import output_mode
from penstock.pipeline.rows.transform_guard import TransformGuard, guard_of
from penstock.pipeline.run_settings import Event, RunSettings, ignore, stopping_on_signals
from penstock.pipeline.sinks.dead_letter_writer import DeadLetterWriter
from penstock.pipeline.sinks.sink_writer import SinkStart, SinkWriter
from penstock.pipeline.sinks.start import prepared
from penstock.pipeline.sources.source import Source
from penstock.pipeline.sources.source_reader import SourceRead, SourceRows
from penstock.pipeline.spark import internals
from penstock.pipeline.spark.messages import explain_sql, quiet_pyspark, silence_py4j
from penstock.pipeline.spark.row_expressions import with_source_replaced
from penstock.pipeline.spark_launch import conf_of, start_spark
from penstock.pipeline.start_checks import check_topic_ids, check_topics, keep_topic_ids, source_key
from penstock.pipeline.supervisor import Supervisor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipeline.api import PipelinePlan
    from penstock.pipeline.live_view import LiveView

_BEGINS_WITH_KEY: Final = re.compile(r"(sources?|transform|sinks?|on_error)[\w.\[\]-]*: ")


@dataclass(frozen=True, slots=True)
class _Result:
    """What one query writes."""

    spec: PipelineSpec  # with the one sink of the query
    rows: DataFrame
    mode: str  # Spark's output mode
    passes: int = 1  # how often the query reads its sources
    writer: SinkWriter | None = None  # instead of the sink's own


class PipelineRun:
    """Made for each run. A program reads its sources before the rest of the pipeline is known: `head` is enough."""

    def __init__(
        self, head: PipelineHead, settings: RunSettings | None = None, *, preview_rows: int | None = None
    ) -> None:
        self.id = uuid.uuid4().hex  # of one execution
        self.head = head
        self._view = _view_of_a_program() if settings is None else None
        self.settings = settings or RunSettings(report=self._view or ignore)
        self.brokers = Brokers(head, self.settings.bootstrap_servers, self.settings.directory)
        self._preview_rows = preview_rows  # reads so many records as a table, where a stream would be read
        self._reads: dict[str, SourceRows] = {}
        self._transformed: list[DataFrame] = []  # what the transform makes of the good rows
        self._guards: dict[str, TransformGuard] = {}
        self._topic_ids: dict[str, str] = {}

    @cached_property
    def spark(self) -> SparkSession:
        """A session of the run's own: of the engine that hosts it, or in a Spark that the first use starts."""
        silence_py4j()
        if self.settings.spark is not None:
            session = self.settings.spark.newSession()
            _configure(session, conf_of(self.head))
        else:
            self.settings.report({"event": "starting", "pipeline": self.head.name})
            # All sessions of a Spark have the settings with which it was started.
            session = start_spark(self.head, self.settings.master).newSession()
        internals.activate(session)
        return session

    @cached_property
    def checkpoint(self) -> Checkpoint:
        location = self.head.checkpoint_location(self.settings.directory, self.settings.checkpoint)
        return Checkpoint(self.spark, location)

    def check_topics(self, spec: PipelineSpec) -> None:
        """Raises PipelineFailed for what brokers refuse: they do not answer, or have no such topic. Needs no Spark."""
        for name, source in spec.all_sources.items():
            check_topics(name, source, self.brokers)
        for branch in spec.branches:
            if branch.sink.kafka is not None:
                purpose, kafka = branch.in_sink("sink.topic"), self.brokers.of(branch.sink.kafka)
                known = self.brokers.topics(purpose, kafka)
                for topic in branch.sink.topics().values():
                    if topic not in known:
                        self.brokers.check_described(purpose, topic, kafka, "Write")

    def read(self, name: str, source: Source) -> DataFrame:
        """The good rows of a source. The run keeps its dead letters, if any."""
        with _refusals(source_key(name)):
            return self._read(name, source)

    def _read(self, name: str, source: Source) -> DataFrame:
        """Raises Spark's exceptions as they are."""
        source = source.located(self.settings.directory)
        kafka: dict[str, str] = {}
        if source.kafka is not None:
            kafka = self.brokers.of(source.kafka)
            if self.head.guarantee == "exactly_once":
                kafka.setdefault("isolation.level", "read_committed")
            topic_ids = check_topics(name, source, self.brokers)
            if source.fails_on_data_loss:
                check_topic_ids(self.checkpoint, name, topic_ids)
                self._topic_ids |= topic_ids
        on_bad_row: OnBadRow = "dead_letters"
        if isinstance(self.head.on_error, str) and self._preview_rows is None:
            on_bad_row = self.head.on_error
        trigger = self.head.trigger
        rows = source.reader().rows(
            SourceRead(
                spark=self.spark,
                name=name,
                checkpoint=self.checkpoint,
                on_bad_row=on_bad_row,
                kafka=kafka,
                interval_ms=duration_ms(trigger.interval) if isinstance(trigger, EveryInterval) else 0,
                guard=self._guards.get(name),
                preview_rows=self._preview_rows,
            )
        )
        self._reads[name] = rows
        return rows.good

    def execute(self, plan: PipelinePlan, origin: TextOrigin | None = None) -> None:
        """Runs the pipeline until it ends or is stopped. Raises PipelineFailed, whose text is one line.

        Mistakes in the SQL are raised as InvalidPipeline with their places if `origin` knows the file.
        """
        settings = replace(self.settings, once=True) if plan.once else self.settings
        secrets = plan.spec.secrets()
        report = settings.report
        reporting = threading.Lock()

        def report_redacted(event: Event) -> None:
            """Queries report from threads of their own; who is told needs no lock."""
            with reporting:
                report({**event, "reason": redacted(event["reason"], secrets)} if "reason" in event else event)

        self.id = uuid.uuid4().hex
        with stopping_on_signals(settings.stop.set) as request:
            try:
                self._execute(plan, origin, replace(settings, report=report_redacted))
            except PipelineFailed as failure:
                condition = failure.entry.condition
                raise PipelineFailed(redacted(str(failure), secrets), failure.exit_code, condition) from None
            finally:
                if self._view is not None:
                    self._view.close()
        if settings.once:
            request.end_unfinished()

    def _execute(self, plan: PipelinePlan, origin: TextOrigin | None, settings: RunSettings) -> None:
        """A pipeline whose transform fails for a row runs again from its checkpoint, with guards that find the row."""
        spec = plan.spec.located(settings.directory)
        tallies: dict[str, Tally] = {}
        try:
            self._run_queries(plan, spec, origin, settings, tallies)
        except PipelineFailed as failure:
            self._guards = self._guards_after(failure)
            if not self._guards:
                raise
            settings.report(
                {
                    "event": "restarting",
                    "pipeline": spec.name,
                    "reason": f"{failure}; the micro-batch runs again to find the row",
                    "condition": failure.entry.condition,
                    "in_seconds": 0,
                }
            )
            self._run_queries(plan, spec, origin, settings, tallies)

    def _guards_after(self, failure: PipelineFailed) -> dict[str, TransformGuard]:
        """By source; none if they would not help."""
        if failure.entry.condition != EXPRESSION_FAILED or self._guards:
            return {}
        if self.head.guarantee == "at_most_once" and self.head.on_error == "stop":
            return {}  # the batch would not run again, and nothing would stop
        return self._found_guards()

    def _found_guards(self) -> dict[str, TransformGuard]:
        found = {name: guard_of(self._transformed, read.good) for name, read in self._reads.items()}
        return {name: guard for name, guard in found.items() if guard is not None}

    def _run_queries(
        self,
        plan: PipelinePlan,
        spec: PipelineSpec,
        origin: TextOrigin | None,
        settings: RunSettings,
        tallies: dict[str, Tally],
    ) -> None:
        """`tallies` are those of the queries, which an earlier attempt may have begun."""
        begun = time.monotonic()
        self.checkpoint.check(spec.name, spec.all_sources, spec.declared_sink)
        self.checkpoint.check_layout(has_several_sinks=spec.sinks is not None)
        self.checkpoint.check_sink_names(spec.sinks or {})
        results = self._results(plan, spec, origin)
        if spec.sinks is not None:
            self.checkpoint.claim(spec.name, spec.all_sources, None, streams=[])
            self.checkpoint.keep_sinks(spec.sinks)
        with contextlib.ExitStack() as resources:
            stop_queries = threading.Event() if spec.sinks is not None else settings.stop
            watches = self.brokers.watches(spec)
            supervisors = {}
            for number, result in enumerate(results):
                name = result.spec.progress_name
                tally = tallies.setdefault(name, Tally())
                # One of the queries tells what is away: all of them read from the same brokers.
                watched = () if number else watches
                supervisors[name] = self._supervisor(plan, result, settings, stop_queries, resources, watched, tally)
            keep_topic_ids(self.checkpoint, self._topic_ids)
            self.checkpoint.take_over(self.id)
            settings.report(
                _started(spec, results)
                | {
                    "checkpoint": self.checkpoint.location,
                    "run": self.id,
                    "seconds": round(time.monotonic() - begun, 3),
                }
            )
            if spec.sinks is None:
                [supervisor] = supervisors.values()
                supervisor.run()
            else:
                runs = {result.spec.progress_name: self._in_a_thread(result.spec, supervisors) for result in results}
                run_together(runs, settings.stop, stop_queries)
        settings.report(_stopped(spec, {r.spec.sink_name: tallies[r.spec.progress_name] for r in results}))

    def _supervisor(
        self,
        plan: PipelinePlan,
        result: _Result,
        settings: RunSettings,
        stop: threading.Event,
        resources: contextlib.ExitStack,
        watches: Sequence[BrokerWatch],
        tally: Tally,
    ) -> Supervisor:
        """Claims the query's checkpoint and prepares its sink."""
        spec = result.spec
        checkpoint = self._checkpoint_of(spec)
        # What a writer of ours writes to is no sink of the author's.
        sink = spec.sink if result.writer is None else None
        checkpoint_id = checkpoint.claim(spec.progress_name, spec.all_sources, sink, internals.streams(result.rows))
        own = replace(settings, report=_naming_sink(spec, settings.report), stop=stop)
        with _refusals("sink", spec):
            start = prepared(
                SinkStart(
                    spec=spec,
                    rows=result.rows,
                    mode=result.mode,
                    run=self.id,
                    brokers=self.brokers,
                    checkpoint=checkpoint,
                    checkpoint_id=checkpoint_id,
                    settings=own,
                    directory=plan.directory,
                    function=plan.functions.get(spec.sink_name),
                    resources=resources,
                ),
                result.writer,
            )
        sources, kept_in = self._topic_sources(spec), self.checkpoint.location
        mirror = GroupMirror(spec.progress_name, sources, checkpoint=kept_in)
        resources.enter_context(contextlib.closing(mirror))

        def on_batch(batch: BatchProgress) -> None:
            mirror.commit(batch.ends)

        return Supervisor(
            spec.progress_name,
            start,
            own,
            on_batch,
            ends_by_itself=isinstance(spec.trigger, str),
            passes=result.passes,
            owns_checkpoint=lambda: self.checkpoint.is_owned_by(self.id),
            brokers=watches,
            tally=tally,
        )

    def _in_a_thread(self, spec: PipelineSpec, supervisors: Mapping[str, Supervisor]) -> Callable[[], None]:
        def run() -> None:
            internals.activate(self.spark)
            try:
                supervisors[spec.progress_name].run()
            except PipelineFailed as failure:
                message = _with_key(spec.in_sink("sink"), spec.in_sink(str(failure)))
                raise PipelineFailed(message, failure.exit_code, failure.entry.condition) from failure

        return run

    def _checkpoint_of(self, spec: PipelineSpec) -> Checkpoint:
        """The pipeline's own for its only query, and a directory below it for each of several."""
        if spec.sink_name is None:
            return self.checkpoint
        return Checkpoint(self.spark, f"{self.checkpoint.location.rstrip('/')}/{SINKS_DIRECTORY}/{spec.sink_name}")

    def _results(self, plan: PipelinePlan, spec: PipelineSpec, origin: TextOrigin | None) -> list[_Result]:
        found = self._transform(plan, spec, origin)
        for result in found if not self._guards else ():
            for path, note in state_notes(result.spec, result.rows):
                message = result.spec.in_sink(f"{key_text(path)}: {note}")
                self.settings.report({"event": "warning", "pipeline": spec.name, "message": message})
        if spec.sinks is not None and spec.on_error != "stop" and not self._guards:
            # A query may have passed a row before another finds that its transform fails for it: then neither that sink
            # nor the dead letters would have it. So all of them are guarded from the beginning.
            self._guards = self._found_guards()
            found = self._transform(plan, spec, origin) if self._guards else found
        bad = [read.bad for read in self._reads.values() if read.bad is not None]
        if not bad:
            return found
        if spec.sinks is not None:
            letters = spec.dead_letter_branch
            return [*found, _Result(letters, letter_rows(bad), "append", writer=DeadLetterWriter())]
        [result] = found
        if not plan.results and len(self._reads) == 1:
            [read] = self._reads.values()
            carried = None
            if read.marked is not None:
                with _refusals("sink"):
                    carried = in_one_pass(self.spark, spec, read.good, read.marked)
            if carried is not None:
                return [replace(result, rows=carried)]
        return [replace(result, rows=joined(result.rows, bad), passes=2)]

    def _transform(self, plan: PipelinePlan, spec: PipelineSpec, origin: TextOrigin | None) -> list[_Result]:
        """What the transform makes of the good rows, for each sink."""
        found = self._analysed(plan, spec, origin) if not plan.results else self._given(plan, spec)
        self._transformed = [result.rows for result in found]
        return found

    def _given(self, plan: PipelinePlan, spec: PipelineSpec) -> list[_Result]:
        """The DataFrames of a program."""
        found = []
        given = self._over_guarded_sources(plan, spec)
        for branch in spec.branches:
            rows = given[branch.sink_name]
            with _refusals("sink", branch):
                mode = "append" if self._preview_rows is not None else output_mode(branch, rows)
                found.append(_Result(branch, rows, mode))
        return found

    def _over_guarded_sources(self, plan: PipelinePlan, spec: PipelineSpec) -> dict[str | None, DataFrame]:
        """The DataFrames of a program, which it has made of sources without guards."""
        results = dict(plan.results)
        for name in self._guards:
            before = self._reads[name].good
            with _refusals(source_key(name)):
                after = self._read(name, spec.all_sources[name])
            results = {sink: with_source_replaced(rows, before, after) for sink, rows in results.items()}
        return results

    def _analysed(self, plan: PipelinePlan, spec: PipelineSpec, origin: TextOrigin | None) -> list[_Result]:
        """The results of a declared pipeline."""

        def read(name: str, source: Source) -> DataFrame:
            with _refusals(source_key(name), sql=False):
                return self._read(name, source)

        is_preview = self._preview_rows is not None
        found = analyse(spec, self.spark, origin or KeyOrigin(), plan.directory, read, checks_sinks=not is_preview)
        if found.problems:
            if origin is None:
                raise PipelineFailed(str(found.problems[0]), ExitCode.INVALID_SQL)
            raise InvalidPipeline(found.problems, ExitCode.INVALID_SQL)
        return [_Result(branch, *found.results[branch.sink_name]) for branch in spec.branches]

    def _topic_sources(self, spec: PipelineSpec) -> list[tuple[Source, Mapping[str, str]]]:
        return [
            (source, self.brokers.of(source.kafka)) for source in spec.all_sources.values() if source.kafka is not None
        ]


def _started(spec: PipelineSpec, results: Sequence[_Result]) -> dict[str, Any]:
    event = {"event": "started", "pipeline": spec.name, "guarantee": spec.guarantee}
    return event if spec.sinks is None else event | {"sinks": [result.spec.sink_name for result in results]}


def _stopped(spec: PipelineSpec, tallies: Mapping[str | None, Tally]) -> dict[str, Any]:
    event = {"event": "stopped", "pipeline": spec.name}
    totals = {name: tally.totals() for name, tally in tallies.items()}
    if spec.sinks is None:
        return event | {"total": totals[None]}
    # Every query reads its sources by itself: the rows of a run are those of the query that has read most.
    sums = {key: sum(total[key] for total in totals.values()) for key in ("batches", "dead_letters")}
    most = {key: max(total[key] for total in totals.values()) for key in ("rows", "dropped")}
    return event | {"total": sums | most, "sinks": totals}


def _naming_sink(spec: PipelineSpec, report: Callable[[Event], None]) -> Callable[[Event], None]:
    """Events of one of several queries name its sink."""
    if spec.sink_name is None:
        return report
    return lambda event: report({**event, "pipeline": spec.name, "sink": spec.sink_name})


def run_pipeline(plan: PipelinePlan, settings: RunSettings) -> None:
    """Runs a declared pipeline to its end."""
    PipelineRun(plan.spec, settings).execute(plan)


def _configure(session: SparkSession, conf: dict[str, str]) -> None:
    from pyspark.errors import PySparkException

    for name, value in conf.items():
        try:
            session.conf.set(name, value)
        except PySparkException as refusal:
            raise PipelineFailed(
                f"spark.{name.removeprefix('spark.')}: cannot be set while Spark runs; stop `penstock up`, and the"
                " pipeline starts a Spark of its own",
                ExitCode.INVALID_PIPELINE,
            ) from refusal


@contextlib.contextmanager
def _refusals(key: str, branch: PipelineSpec | None = None, *, sql: bool = True) -> Iterator[None]:
    """Turns failures before a query runs into one line that begins with the key. `sql`: mistakes in SQL, too. `branch`:
    the key is one of its sink's."""
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    def placed(message: str) -> str:
        keyed = _with_key(key, message)
        return keyed if branch is None else branch.in_sink(keyed)

    try:
        with quiet_pyspark():
            yield
    except (AnalysisException, ParseException) as refusal:
        if not sql:
            raise
        mistake = explain_sql(refusal)
        place = f" (line {mistake.line}, position {mistake.position + 1} of the SQL)" if mistake.line else ""
        raise PipelineFailed(placed(f"{key}: {mistake.message}{place}"), ExitCode.INVALID_SQL) from refusal
    except PySparkException as refusal:
        found = classify(refusal)
        raise PipelineFailed(placed(found.line), found.exit_code, found.condition) from refusal
    except PipelineFailed as failure:
        raise PipelineFailed(placed(str(failure)), failure.exit_code, failure.entry.condition) from failure


def _with_key(key: str, message: str) -> str:
    """A message that begins with a more precise key stays as it is."""
    return message if _BEGINS_WITH_KEY.match(message) else f"{key}: {message}"


def _view_of_a_program() -> LiveView:
    """For a program that is run by Python and not by our command: it shows progress if a person looks."""
    from penstock.pipeline.live_view import LiveView

    return LiveView.for_a_program(sys.stderr)
