"""One run of a pipeline: sources -> transform -> sink, under supervision.

`PipelineRun` owns what belongs to one run (session, brokers, checkpoint, reads with their dead letters, resources) and
the order of a start: what brokers refuse first, then the checkpoint's identity, the analysis of the SQL, the sink, the
query. The command, the engine and programs all run pipelines through it.

Invariants:
- Each check is made once: brokers are asked once for each cluster, and each query is analysed once, on the DataFrames
  that run.
- A start that fails leaves the checkpoint as it was.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.analysis import KeyOrigin, TextOrigin, analyse
from penstock.pipeline.brokers import Brokers
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.declaration.redaction import redacted
from penstock.pipeline.declaration.spec import PipelineHead, PipelineSpec
from penstock.pipeline.declaration.spec_errors import InvalidPipeline
from penstock.pipeline.failure import PipelineFailed, classify
from penstock.pipeline.group_mirror import GroupMirror
from penstock.pipeline.progress import BatchProgress
from penstock.pipeline.rows.bad_rows import OnBadRow
from penstock.pipeline.rows.dead_letters import joined
from penstock.pipeline.rows.one_pass import in_one_pass
from penstock.pipeline.rows.output_mode import output_mode
from penstock.pipeline.run_settings import Event, RunSettings, stopping_on_signals
from penstock.pipeline.sinks.sink_writer import SinkStart
from penstock.pipeline.sinks.start import prepared
from penstock.pipeline.sources.source import Source
from penstock.pipeline.sources.source_reader import SourceRead, SourceRows
from penstock.pipeline.spark import internals
from penstock.pipeline.spark.messages import explain_sql, quiet_pyspark, silence_py4j
from penstock.pipeline.spark_launch import conf_of, start_spark
from penstock.pipeline.start_checks import check_topic_ids, check_topics, keep_topic_ids, source_key
from penstock.pipeline.supervisor import Supervisor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipeline.api import PipelinePlan

_BEGINS_WITH_KEY: Final = re.compile(r"(sources?|transform|sink|on_error)[\w.\[\]-]*: ")


@dataclass(frozen=True, slots=True)
class _Result:
    """The rows to write with their dead letters, Spark's output mode for them, and how often sources are read."""

    rows: DataFrame
    mode: str
    passes: int = 1


class PipelineRun:
    """Made for each run. A program reads its sources before the rest of the pipeline is known: `head` is enough."""

    def __init__(self, head: PipelineHead, settings: RunSettings | None = None) -> None:
        self.id = uuid.uuid4().hex  # of one execution
        self.head = head
        self.settings = settings or RunSettings(report=_default_report())
        self.brokers = Brokers(head, self.settings.bootstrap_servers, self.settings.directory)
        self._reads: dict[str, SourceRows] = {}
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
        if spec.sink.kafka is not None:
            self.brokers.topics("sink.topic", self.brokers.of(spec.sink.kafka))

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
        on_bad_row: OnBadRow = "dead_letters" if not isinstance(self.head.on_error, str) else self.head.on_error
        rows = source.reader().rows(
            SourceRead(spark=self.spark, name=name, checkpoint=self.checkpoint, on_bad_row=on_bad_row, kafka=kafka)
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

        def report_redacted(event: Event) -> None:
            report({**event, "reason": redacted(event["reason"], secrets)} if "reason" in event else event)

        self.id = uuid.uuid4().hex
        with stopping_on_signals(settings.stop.set):
            try:
                self._execute(plan, origin, replace(settings, report=report_redacted))
            except PipelineFailed as failure:
                condition = failure.entry.condition
                raise PipelineFailed(redacted(str(failure), secrets), failure.exit_code, condition) from None

    def _execute(self, plan: PipelinePlan, origin: TextOrigin | None, settings: RunSettings) -> None:
        begun = time.monotonic()
        spec = plan.spec.located(settings.directory)
        checkpoint = self.checkpoint
        checkpoint.check(spec.name, spec.all_sources)
        result = self._result(plan, spec, origin)
        checkpoint_id = checkpoint.claim(spec.name, spec.all_sources, internals.streams(result.rows))
        keep_topic_ids(checkpoint, self._topic_ids)
        with contextlib.ExitStack() as resources:
            with _refusals("sink"):
                start = prepared(
                    SinkStart(
                        spec=spec,
                        rows=result.rows,
                        mode=result.mode,
                        run=self.id,
                        brokers=self.brokers,
                        checkpoint=checkpoint,
                        checkpoint_id=checkpoint_id,
                        settings=settings,
                        directory=plan.directory,
                        function=plan.function,
                        resources=resources,
                    )
                )
            mirror = resources.enter_context(contextlib.closing(GroupMirror(spec.name, self._topic_sources(spec))))

            def on_batch(batch: BatchProgress) -> None:
                mirror.commit(batch.ends)

            supervisor = Supervisor(
                spec.name,
                start,
                settings,
                on_batch,
                ends_by_itself=isinstance(spec.trigger, str),
                passes=result.passes,
                owns_checkpoint=lambda: checkpoint.is_owned_by(self.id),
            )
            checkpoint.take_over(self.id)
            settings.report(
                {
                    "event": "started",
                    "pipeline": spec.name,
                    "guarantee": spec.guarantee,
                    "checkpoint": checkpoint.location,
                    "run": self.id,
                    "seconds": round(time.monotonic() - begun, 3),
                }
            )
            supervisor.run()
        settings.report({"event": "stopped", "pipeline": spec.name, "total": supervisor.tally.totals()})

    def _result(self, plan: PipelinePlan, spec: PipelineSpec, origin: TextOrigin | None) -> _Result:
        if plan.result is None:
            rows, mode = self._analysed(plan, spec, origin)
        else:
            with _refusals("sink"):
                rows, mode = plan.result, output_mode(spec, plan.result)
        bad = [read.bad for read in self._reads.values() if read.bad is not None]
        if not bad:
            return _Result(rows, mode)
        if plan.result is None and len(self._reads) == 1:
            [read] = self._reads.values()
            carried = None
            if read.marked is not None:
                with _refusals("sink"):
                    carried = in_one_pass(self.spark, spec, read.good, read.marked)
            if carried is not None:
                return _Result(carried, mode)
        return _Result(joined(rows, bad), mode, passes=2)

    def _analysed(self, plan: PipelinePlan, spec: PipelineSpec, origin: TextOrigin | None) -> tuple[DataFrame, str]:
        """The result of a declared pipeline and its output mode."""

        def read(name: str, source: Source) -> DataFrame:
            with _refusals(source_key(name), sql=False):
                return self._read(name, source)

        found = analyse(spec, self.spark, origin or KeyOrigin(), plan.directory, read)
        if found.problems:
            if origin is None:
                raise PipelineFailed(str(found.problems[0]), ExitCode.INVALID_SQL)
            raise InvalidPipeline(found.problems, ExitCode.INVALID_SQL)
        assert found.result is not None
        assert found.mode is not None
        return found.result, found.mode

    def _topic_sources(self, spec: PipelineSpec) -> list[tuple[Source, Mapping[str, str]]]:
        return [
            (source, self.brokers.of(source.kafka)) for source in spec.all_sources.values() if source.kafka is not None
        ]


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
def _refusals(key: str, *, sql: bool = True) -> Iterator[None]:
    """Turns failures before a query runs into one line that begins with the key. `sql`: mistakes in SQL, too."""
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    try:
        with quiet_pyspark():
            yield
    except (AnalysisException, ParseException) as refusal:
        if not sql:
            raise
        mistake = explain_sql(refusal)
        place = f" (line {mistake.line}, position {mistake.position + 1} of the SQL)" if mistake.line else ""
        raise PipelineFailed(f"{key}: {mistake.message}{place}", ExitCode.INVALID_SQL) from refusal
    except PySparkException as refusal:
        found = classify(refusal)
        raise PipelineFailed(_with_key(key, found.line), found.exit_code, found.condition) from refusal
    except PipelineFailed as failure:
        raise PipelineFailed(_with_key(key, str(failure)), failure.exit_code, failure.entry.condition) from failure


def _with_key(key: str, message: str) -> str:
    """A message that begins with a more precise key stays as it is."""
    return message if _BEGINS_WITH_KEY.match(message) else f"{key}: {message}"


def _default_report() -> Callable[[Event], None]:
    """For a program that is run by Python and not by our command."""
    from penstock.pipeline.live_view import LiveView

    return LiveView.for_a_program(sys.stderr)
