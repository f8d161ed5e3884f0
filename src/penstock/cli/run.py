"""`penstock run FILE`: runs a pipeline until it is stopped; with --once, until all available records are processed.

Owns where it runs (the engine of `penstock up` if there is one, else a Spark of its own) and what is shown. What a
pipeline does is in `pipeline/run.py`.

Invariants: a failure is one line on stderr and an exit code; with --json, stdout carries JSON lines and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.options import (
    AsJson,
    BootstrapServer,
    LogFormatOption,
    MetricsAddress,
    examples,
    use_log_format,
)
from penstock.core.error_table import CONDITION_BY_EXIT_CODE
from penstock.core.exit_codes import ExitCode
from penstock.monitoring.logs import logs_json, print_error, say

if TYPE_CHECKING:
    from penstock.pipeline.api import Pipeline, ProgramRun
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline
    from penstock.pipeline.declaration.spec_file import PipelineFile
    from penstock.pipeline.run_settings import Event, RunSettings

EPILOG: Final = (
    examples(
        "penstock run revenue.yaml                       until ctrl-C, which lets the batch finish",
        "penstock run --once revenue.yaml                all available records, then exit",
        "penstock run --json revenue.yaml                events as JSON lines",
        "penstock run --metrics 127.0.0.1:9405 revenue.yaml   and figures for Prometheus",
        "penstock run --detach revenue.yaml              in the engine of `penstock up`, which keeps it running",
        "penstock run --preview 20 revenue.yaml          the first rows of the result; nothing is written",
        "penstock run --master spark://host:7077 --checkpoint hdfs:///cp/revenue revenue.yaml",
    )
    + "\n\n\b\nExit codes: 0 stopped as asked, 2 wrong usage, 3 broker unreachable, 4 no such topic,\n"
    "20-30 the pipeline, 130 and 143 stopped by a signal before --once was done; docs/cli.md lists them."
)
_REQUIREMENT: Final = "pipelines need Spark: pip install 'penstock[spark]'"
_EXTRAS: Final = ("pydantic", "yaml", "pyspark", "py4j", "pyarrow", "numba", "numpy")


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="A pipeline: .yaml, .yml or .py.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Process all available records and exit.")] = False,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="A Spark cluster. Without it: this machine, all cores."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="DIR", help="Where progress is kept, instead of where the pipeline says."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Hand it to the engine of `penstock up`, which keeps it running.")
    ] = False,
    preview: Annotated[
        int | None,
        typer.Option(
            "--preview", metavar="N", min=1, help="Show the first N rows of the result and exit; writes nothing."
        ),
    ] = None,
    metrics: MetricsAddress = None,
    log_format: LogFormatOption = "text",
    bootstrap_server: BootstrapServer = None,
    exit_with_stdin: Annotated[bool, typer.Option("--exit-with-stdin", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline file or program."""
    use_log_format(log_format)
    if exit_with_stdin:  # for an engine that runs this command as a child process
        from penstock.cli.broker import stop_with_stdin

        stop_with_stdin()
    if detach and (once or preview is not None or master is not None or file.suffix == ".py"):
        raise usage_error("--detach is for pipeline files that run until stopped: no --once, --preview, --master, .py")
    if metrics is not None and (detach or preview is not None):
        raise usage_error(
            "--metrics is for a pipeline that this command runs; those of an engine: penstock up --metrics"
        )
    if master is not None:
        _check_master_url(master)
    try:
        if detach:
            _run_detached(file, checkpoint, bootstrap_server, as_json)
        else:
            with _figures(metrics) as count:
                _run(file, once, master, checkpoint, bootstrap_server, as_json, preview, count)
    except ModuleNotFoundError as missing:
        if missing.name in _EXTRAS:
            raise CommandError(_REQUIREMENT, ExitCode.MISSING_REQUIREMENT) from missing
        raise


def _check_master_url(master: str) -> None:
    from penstock.pipeline.spark.master import InvalidMaster, standalone_masters

    try:
        standalone_masters(master)
    except InvalidMaster as mistake:
        raise usage_error(f"--master {mistake}") from mistake


def _run(
    file: Path,
    once: bool,
    master: str | None,
    checkpoint: str | None,
    bootstrap_server: str | None,
    as_json: bool,
    preview: int | None,
    count: Callable[[Event], None],
) -> None:
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline
    from penstock.pipeline.failure import PipelineFailed
    from penstock.pipeline.run_settings import RunSettings

    with _shown(as_json) as show:

        def report(event: Event) -> None:
            count(event)
            show(event)

        settings = RunSettings(
            bootstrap_servers=bootstrap_server, checkpoint=checkpoint, master=master, once=once, report=report
        )
        try:
            if preview is not None:
                _preview(file, settings, preview, as_json)
            elif file.suffix == ".py":
                _run_program(file, settings, _run_in_this_process(settings))
            else:
                _run_file(file, settings)
        except InvalidPipeline as invalid:
            raise _mistakes(invalid) from None
        except PipelineFailed as failure:  # of a program
            raise CommandError(f"{file}: {failure}", failure.exit_code) from failure


def _run_detached(file: Path, checkpoint: str | None, bootstrap_server: str | None, as_json: bool) -> None:
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline
    from penstock.pipeline.declaration.spec_file import load_pipeline
    from penstock.pipeline.run_settings import RunSettings

    try:
        pipeline = load_pipeline(file)
    except InvalidPipeline as invalid:
        raise _mistakes(invalid) from None
    _detach(pipeline, RunSettings(bootstrap_servers=bootstrap_server, checkpoint=checkpoint), as_json)


def _mistakes(invalid: InvalidPipeline) -> typer.Exit:
    for problem in invalid.problems:
        print_error(str(problem), command=None, code=CONDITION_BY_EXIT_CODE[invalid.exit_code])
    return typer.Exit(invalid.exit_code)


@contextlib.contextmanager
def _figures(metrics: str | None) -> Iterator[Callable[[Event], None]]:
    """What counts the events of the pipeline, as long as they are served."""
    if metrics is None:
        yield lambda event: None
        return
    from penstock.cli.metrics import serving
    from penstock.core.metrics import Metrics
    from penstock.monitoring.http_server import text_of
    from penstock.monitoring.process_metrics import watch_process
    from penstock.pipeline.pipeline_metrics import PipelineMetrics

    registry = Metrics()
    watch_process(registry)
    figures = PipelineMetrics(registry)
    with serving(metrics, lambda: text_of(registry)) as address:
        told = f"metrics on http://{address}/metrics"
        if logs_json():
            say(told, "penstock.run")
        else:
            print(f"penstock: {told}", file=sys.stderr, flush=True)
        yield figures.apply


@contextlib.contextmanager
def _shown(as_json: bool) -> Iterator[Callable[[Event], None]]:
    from penstock.pipeline.live_view import LiveView, json_lines

    if as_json:
        yield json_lines(sys.stdout)
        return
    as_log = logs_json()
    view = LiveView(
        sys.stderr,
        sys.stdout,
        interactive=sys.stderr.isatty() and not as_log,
        log=(lambda text, level: say(text, "penstock.pipeline", level)) if as_log else None,
    )
    try:
        yield view
    finally:
        view.close()


def _run_file(file: Path, settings: RunSettings) -> None:
    from penstock.core.addresses import DEFAULT_DATA_DIR
    from penstock.pipeline.declaration.spec_file import load_pipeline
    from penstock.pipeline.engine.client import find_engine
    from penstock.pipeline.engine.packing import can_be_hosted
    from penstock.pipeline.failure import PipelineFailed

    pipeline = load_pipeline(file)
    try:
        if settings.master is None and can_be_hosted(pipeline.spec) and find_engine(DEFAULT_DATA_DIR) is not None:
            _run_in_engine(pipeline, settings)
        else:
            _run_in_own_spark(pipeline, settings)
    except PipelineFailed as failure:
        raise CommandError(pipeline.origin.placed(str(failure)), failure.exit_code) from failure


def _run_in_own_spark(pipeline: PipelineFile, settings: RunSettings) -> None:
    from penstock.pipeline.spark_launch import launch_ahead

    # Before the imports that follow: they take a tenth of the time of Java's start, which continues meanwhile.
    launch_ahead(pipeline.spec, settings.master)
    from penstock.pipeline.api import PipelinePlan
    from penstock.pipeline.run import PipelineRun

    started = PipelineRun(pipeline.spec, settings)
    started.check_topics(pipeline.spec)
    started.execute(PipelinePlan(pipeline.spec, pipeline.directory), pipeline.origin)


def _run_in_engine(pipeline: PipelineFile, settings: RunSettings) -> None:
    from penstock.core.addresses import DEFAULT_DATA_DIR
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline
    from penstock.pipeline.engine.client import run_in_engine
    from penstock.pipeline.engine.mistakes import mistakes_in_file
    from penstock.pipeline.engine.packing import packed, packed_settings

    failed: dict[str, Any] = {"reason": "the pipeline failed"}

    def report(event: Event) -> None:
        if event["event"] == "failed":
            failed.update(event)
        else:
            settings.report(event)

    spec = pipeline.spec
    outcome = run_in_engine(
        DEFAULT_DATA_DIR, spec.name, packed(spec), packed_settings(settings), report, spec.guarantee
    )
    if failed.get("mistakes"):
        raise InvalidPipeline(mistakes_in_file(failed["mistakes"], pipeline.origin), ExitCode(outcome.exit_code))
    if outcome.exit_code:
        message = outcome.message or str(failed["reason"])
        raise CommandError(pipeline.origin.placed(message), ExitCode(outcome.exit_code))


def _detach(pipeline: PipelineFile, settings: RunSettings, as_json: bool) -> None:
    """Hands the pipeline to the engine, which keeps it; returns when it runs, or says why it does not."""
    from penstock.cli.engine import engine_request, wait_for_start
    from penstock.core.addresses import DEFAULT_DATA_DIR
    from penstock.pipeline.engine.client import put_pipeline
    from penstock.pipeline.engine.desired_state import DesiredState
    from penstock.pipeline.engine.packing import packed, packed_settings

    spec, file = pipeline.spec, pipeline.origin.file
    state = DesiredState(
        name=spec.name,
        spec=packed(spec),
        settings=packed_settings(settings),
        directory=str(settings.directory),
        file=str(Path(file).resolve()),
        guarantee=spec.guarantee,
    )
    with engine_request(DEFAULT_DATA_DIR):
        put_pipeline(DEFAULT_DATA_DIR, state)
        status = wait_for_start(DEFAULT_DATA_DIR, spec.name)
    if as_json:
        print(json.dumps(status))
    elif status["state"] != "FAILED":
        print(f"{spec.name} is {status['state']} in the engine; follow it: penstock logs -f {spec.name}")
    if status["state"] == "FAILED":
        for problem in status["problems"] or [f"penstock: {status['reason']}"]:
            print(problem, file=sys.stderr)
        raise typer.Exit(status["exit_code"] or ExitCode.FAILURE)


def _preview(file: Path, settings: RunSettings, rows: int, as_json: bool) -> None:
    """In a Spark of its own: sources are read, and nothing is written."""
    from dataclasses import replace

    from penstock.pipeline.api import PipelinePlan
    from penstock.pipeline.declaration.spec_file import load_pipeline
    from penstock.pipeline.failure import PipelineFailed
    from penstock.pipeline.preview import Preview, PreviewRun, print_preview
    from penstock.pipeline.run_settings import ignore

    def shown(found: Preview) -> None:
        print_preview(found, sys.stdout, as_json=as_json)

    quiet = replace(settings, report=ignore) if as_json else settings
    if file.suffix == ".py":

        def open_run(pipeline: Pipeline) -> ProgramRun:
            return PreviewRun(pipeline.head, quiet, rows, shown)

        _run_program(file, quiet, open_run)
        return
    pipeline = load_pipeline(file)
    try:
        started = PreviewRun(pipeline.spec, quiet, rows, shown)
        started.check_topics(pipeline.spec)
        started.execute(PipelinePlan(pipeline.spec, pipeline.directory), pipeline.origin)
    except PipelineFailed as failure:
        raise CommandError(pipeline.origin.placed(str(failure)), failure.exit_code) from failure


def _run_in_this_process(settings: RunSettings) -> Callable[[Pipeline], ProgramRun]:
    def open_run(pipeline: Pipeline) -> ProgramRun:
        from penstock.pipeline.run import PipelineRun

        return PipelineRun(pipeline.head, settings)

    return open_run


def _run_program(file: Path, settings: RunSettings, open_run: Callable[[Pipeline], ProgramRun]) -> None:
    from penstock.pipeline.api import hosting
    from penstock.pipeline.declaration.spec import PipelineHead
    from penstock.pipeline.program import EarlySession, ProgramFailed, run_program

    def start_session(wanted: EarlySession) -> None:
        from penstock.pipeline.spark_launch import start_spark

        settings.report({"event": "starting", "pipeline": wanted.name})
        start_spark(PipelineHead(name=wanted.name, spark=wanted.spark), settings.master)

    if not file.is_file():
        raise usage_error(f"{file}: no such file")
    with hosting(open_run):
        try:
            run_program(file, start_session)
        except ProgramFailed as failure:
            if isinstance(failure.__cause__, ModuleNotFoundError) and failure.__cause__.name in _EXTRAS:
                raise failure.__cause__ from None
            print(failure, file=sys.stderr)
            raise typer.Exit(ExitCode.FAILURE) from None
        except SystemExit as end:
            raise _end_of_program(end) from end


def _end_of_program(end: SystemExit) -> typer.Exit:
    """As Python ends: no code is success, and what is no number is printed."""
    if end.code is None:
        return typer.Exit(ExitCode.OK)
    if isinstance(end.code, int):
        return typer.Exit(end.code)
    print(end.code, file=sys.stderr)
    return typer.Exit(ExitCode.FAILURE)
