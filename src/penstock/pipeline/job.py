"""A pipeline, put together and run: sources -> transform -> sink, under supervision.

This is the one place where the parts meet. Owns the order of a start: what can be refused without Spark first, then the
checkpoint's identity, then the query. `api.py`, the command and the engine all run pipelines through here.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.brokers import Brokers, check_source, source_key
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.declaration.function_reference import FunctionMissing
from penstock.pipeline.declaration.redaction import redacted
from penstock.pipeline.declaration.spec import PipelineHead, PipelineSpec
from penstock.pipeline.failure import PipelineFailed, classify
from penstock.pipeline.group_mirror import GroupMirror
from penstock.pipeline.own_spark import conf_of, own_spark
from penstock.pipeline.progress import BatchProgress
from penstock.pipeline.rows.bad_rows import OnBadRow
from penstock.pipeline.rows.dead_letters import joined
from penstock.pipeline.rows.one_pass import in_one_pass
from penstock.pipeline.rows.output_mode import output_mode
from penstock.pipeline.rows.transform_chain import NotADataFrame, apply_transform
from penstock.pipeline.run_settings import Event, RunSettings, current_settings
from penstock.pipeline.sinks.sink_writer import SinkStart
from penstock.pipeline.sinks.start import prepared
from penstock.pipeline.sources.source import Source
from penstock.pipeline.sources.source_reader import SourceRead
from penstock.pipeline.spark import internals
from penstock.pipeline.spark.messages import explain_sql, quiet_pyspark, silence_py4j
from penstock.pipeline.stop_signals import stopping_on_signals
from penstock.pipeline.supervisor import Supervisor
from penstock.pipeline.topic_identity import check_topics, keep_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipeline.api import PipelinePlan

_BEGINS_WITH_KEY: Final = re.compile(r"(sources?|transform|sink|on_error)[\w.\[\]-]*: ")


@dataclass(slots=True)
class _Opened:
    """What was read in a session, for the run that follows."""

    bad: dict[str, DataFrame] = field(default_factory=dict)
    marked: dict[str, DataFrame] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)


_opened: WeakKeyDictionary[SparkSession, _Opened] = WeakKeyDictionary()


def open_session(head: PipelineHead, settings: RunSettings | None = None) -> SparkSession:
    """A session of the pipeline's own: of the engine that hosts it, or in a Spark that this starts."""
    settings = settings or current_settings() or RunSettings()
    silence_py4j()
    if settings.spark is not None:
        session = settings.spark.newSession()
        _set(session, conf_of(head))
    else:
        settings.report({"event": "starting", "pipeline": head.name})
        # What is set when Spark starts, all of its sessions have.
        session = own_spark(head, settings.master).newSession()
    _opened[session] = _Opened()
    internals.activate(session)
    return session


def _set(session: SparkSession, conf: dict[str, str]) -> None:
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


def check_brokers(spec: PipelineSpec, settings: RunSettings) -> None:
    """What can be refused before Spark is started: brokers that do not answer, and topics that are not there."""
    brokers = Brokers(spec, settings.bootstrap_servers, settings.directory)
    for name, source in spec.all_sources.items():
        if source.kafka is not None:
            check_source(name, source, brokers.of(source.kafka))


def read_source(
    spark: SparkSession, head: PipelineHead, name: str, source: Source, settings: RunSettings | None = None
) -> DataFrame:
    """The good rows of a source. Its dead letters, if any, are kept for `run_pipeline` of the same session."""
    settings = settings or current_settings() or RunSettings()
    source = source.located(settings.directory)
    checkpoint = Checkpoint(spark, head.checkpoint_location(settings.directory, settings.checkpoint))
    opened = _opened.setdefault(spark, _Opened())
    kafka: dict[str, str] = {}
    if source.kafka is not None:
        kafka = Brokers(head, settings.bootstrap_servers, settings.directory).of(source.kafka)
        if head.guarantee == "exactly_once":
            kafka.setdefault("isolation.level", "read_committed")
        topic_ids = check_source(name, source, kafka)
        if source.fails_on_data_loss:
            check_topics(checkpoint, source_key(name), topic_ids)
            opened.topic_ids |= topic_ids
    with _refusals_of_spark(source_key(name)):
        rows = source.reader().rows(
            SourceRead(spark=spark, name=name, checkpoint=checkpoint, on_bad_row=_on_bad_row(head), kafka=kafka)
        )
    if rows.bad is not None:
        opened.bad[name] = rows.bad
    if rows.marked is not None:
        opened.marked[name] = rows.marked
    return rows.good


def run_pipeline(plan: PipelinePlan, settings: RunSettings | None = None) -> None:
    """Runs it until it ends or is stopped. Raises PipelineFailed, whose text is one line, when it cannot go on."""
    given = settings or current_settings()
    settings = given or RunSettings(report=_default_report())
    if plan.once:
        settings = replace(settings, once=True)
    secrets = plan.spec.secrets()
    report = settings.report

    def report_redacted(event: Event) -> None:
        report({**event, "reason": redacted(event["reason"], secrets)} if "reason" in event else event)

    with stopping_on_signals(settings.stop.set):
        try:
            _run(plan, replace(settings, report=report_redacted))
        except PipelineFailed as failure:
            condition = failure.entry.condition
            raise PipelineFailed(redacted(str(failure), secrets), failure.exit_code, condition) from None


def _run(plan: PipelinePlan, settings: RunSettings) -> None:
    begun = time.monotonic()
    spec = plan.spec.located(settings.directory)
    spark = plan.session if plan.session is not None else open_session(spec, settings)
    run = uuid.uuid4().hex
    brokers = Brokers(spec, settings.bootstrap_servers, settings.directory)
    checkpoint = Checkpoint(spark, spec.checkpoint_location(settings.directory, settings.checkpoint))
    checkpoint.check(spec.name, spec.all_sources)
    rows, mode, passes = _result(plan, spec, spark, settings)
    # Not before the sources were found: a start that fails has not made the checkpoint anybody's.
    checkpoint_id = checkpoint.claim(spec.name, spec.all_sources, internals.streams(rows))
    keep_topics(checkpoint, _opened.get(spark, _Opened()).topic_ids)
    with contextlib.ExitStack() as resources:
        with _refusals_of_spark("sink"):
            start = prepared(
                SinkStart(
                    spec=spec,
                    rows=rows,
                    mode=mode,
                    run=run,
                    brokers=brokers,
                    checkpoint=checkpoint,
                    checkpoint_id=checkpoint_id,
                    settings=settings,
                    directory=plan.directory,
                    function=plan.function,
                    resources=resources,
                )
            )
        mirror = resources.enter_context(contextlib.closing(GroupMirror(spec.name, _topics(spec, brokers))))
        supervisor = Supervisor(
            spec.name,
            start,
            settings,
            _mirrored(mirror),
            ends_by_itself=isinstance(spec.trigger, str),
            passes=passes,
            owns_checkpoint=lambda: checkpoint.is_owned_by(run),
        )
        checkpoint.take_over(run)
        settings.report(
            {
                "event": "started",
                "pipeline": spec.name,
                "guarantee": spec.guarantee,
                "checkpoint": checkpoint.location,
                "run": run,
                "seconds": round(time.monotonic() - begun, 3),
            }
        )
        supervisor.run()
    settings.report({"event": "stopped", "pipeline": spec.name, "total": supervisor.tally.totals()})


def _result(
    plan: PipelinePlan, spec: PipelineSpec, spark: SparkSession, settings: RunSettings
) -> tuple[DataFrame, str, int]:
    """The rows to write with their dead letters, Spark's output mode for them, and how often sources are read."""
    rows = plan.result
    sources: dict[str, DataFrame] = {}
    if rows is None:
        sources = {name: read_source(spark, spec, name, source, settings) for name, source in spec.all_sources.items()}
        try:
            with _refusals_of_spark("transform"):
                rows = apply_transform(spark, spec, sources, plan.directory)
        except (FunctionMissing, NotADataFrame) as mistake:
            raise PipelineFailed(f"transform: {mistake}", ExitCode.INVALID_PIPELINE) from mistake
    with _refusals_of_spark("sink"):
        mode = output_mode(spec, rows)
        opened = _opened.get(spark, _Opened())
        if not opened.bad:
            return rows, mode, 1
        if len(sources) == 1 and opened.marked:
            [good], [marked] = sources.values(), opened.marked.values()
            carried = in_one_pass(spark, spec, good, marked, plan.directory)
            if carried is not None:
                return carried, mode, 1
        return joined(rows, list(opened.bad.values())), mode, 2


def _on_bad_row(head: PipelineHead) -> OnBadRow:
    return "dead_letters" if not isinstance(head.on_error, str) else head.on_error


def _topics(spec: PipelineSpec, brokers: Brokers) -> list[tuple[Source, Mapping[str, str]]]:
    return [(source, brokers.of(source.kafka)) for source in spec.all_sources.values() if source.kafka is not None]


def _mirrored(mirror: GroupMirror) -> Any:
    def on_batch(batch: BatchProgress) -> None:
        mirror.commit(batch.ends)

    return on_batch


@contextlib.contextmanager
def _refusals_of_spark(key: str) -> Iterator[None]:
    """What is wrong with a part of the pipeline before a query runs, as one line that begins with its key."""
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    try:
        with quiet_pyspark():
            yield
    except (AnalysisException, ParseException) as refusal:
        mistake = explain_sql(refusal)
        place = f" (line {mistake.line}, position {mistake.position + 1} of the SQL)" if mistake.line else ""
        raise PipelineFailed(f"{key}: {mistake.message}{place}", ExitCode.INVALID_SQL) from refusal
    except PySparkException as refusal:
        found = classify(refusal)
        raise PipelineFailed(_behind_key(key, found.line), found.exit_code, found.condition) from refusal
    except PipelineFailed as failure:
        raise PipelineFailed(_behind_key(key, str(failure)), failure.exit_code, failure.entry.condition) from failure


def _behind_key(key: str, message: str) -> str:
    """Who knows the very key has named it; who knows only rows, files or a table has not."""
    return message if _BEGINS_WITH_KEY.match(message) else f"{key}: {message}"


def _default_report() -> Any:
    """For a program that is run by Python and not by our command."""
    from penstock.pipeline.live_view import LiveView

    return LiveView.for_a_program(sys.stderr)
