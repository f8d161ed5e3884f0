"""`penstock validate FILE`: says what is wrong with a pipeline, line by line, before anything runs.

Owns the order of the checks and what is printed. The structure is checked first and without Spark; SQL is checked by
Spark itself: that of the engine of `penstock up` if one runs, else a session that connects to nothing. A program
(`.py`) is run up to its `run()`, on empty sources.

Invariants: stdout carries the verdict, stderr the mistakes; every mistake is one line.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.options import AsJson, examples
from penstock.core.exit_codes import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipeline.analysis import Findings
    from penstock.pipeline.declaration.spec import PipelineSpec
    from penstock.pipeline.declaration.spec_errors import Problem
    from penstock.pipeline.declaration.spec_file import PipelineFile

EPILOG: Final = (
    examples(
        "penstock validate revenue.yaml",
        "penstock validate --no-sql revenue.yaml         at once: without starting Spark",
        "penstock validate revenue.py                    a program, run up to its run()",
        "penstock validate --schema > pipeline.schema.json",
    )
    + "\n\n\b\nExit codes: 0 it may run, 2 wrong usage, 20 the pipeline is wrong, 21 its SQL is wrong,\n"
    "22 Spark or Java is missing. More: docs/pipelines.md."
)
_REQUIREMENT: Final = "pipelines need Spark: pip install 'penstock[spark]'"


def validate(
    *,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", show_default=False, help="A pipeline: .yaml, .yml or .py.")
    ] = None,
    no_sql: Annotated[bool, typer.Option("--no-sql", help="Check the structure only; start no Spark.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of pipeline files, for editors, and stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a pipeline file or program without running it."""
    try:
        if schema:
            from penstock.pipeline.declaration.spec_schema import json_schema

            print(json.dumps(json_schema(), indent=2))
            return
        if file is None:
            raise usage_error("expected a FILE; see `penstock validate --help`")
        _validate(file, no_sql, as_json)
    except ModuleNotFoundError as missing:
        if missing.name in ("pydantic", "yaml", "pyspark", "py4j"):
            raise CommandError(_REQUIREMENT, ExitCode.MISSING_REQUIREMENT) from missing
        raise


def _validate(file: Path, no_sql: bool, as_json: bool) -> None:
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline

    try:
        if file.suffix == ".py":
            spec, found = _check_program(file, no_sql)
        else:
            spec, found = _check_file(file, no_sql)
    except InvalidPipeline as invalid:
        _report(file, None, invalid.problems, (), invalid.exit_code, as_json)
        raise typer.Exit(invalid.exit_code) from None
    code = ExitCode.INVALID_SQL if found.problems else ExitCode.OK
    _report(file, spec, found.problems, found.notes, code, as_json)
    if code:
        raise typer.Exit(code)


def _check_file(file: Path, no_sql: bool) -> tuple[PipelineSpec, Findings]:
    from penstock.pipeline.analysis import Findings
    from penstock.pipeline.declaration.spec_file import load_pipeline

    pipeline = load_pipeline(file)
    if no_sql:
        return pipeline.spec, Findings()
    found = _check_in_engine(pipeline)
    if found is not None:
        return pipeline.spec, found
    from penstock.pipeline.analysis import check_with_spark

    with _session() as spark:
        return pipeline.spec, check_with_spark(pipeline.spec, spark, pipeline.origin, pipeline.directory)


def _check_in_engine(pipeline: PipelineFile) -> Findings | None:
    """What the Spark of a running engine says; None if there is none, or if it does not host such a pipeline."""
    from penstock.core.addresses import DEFAULT_DATA_DIR
    from penstock.pipeline.analysis import Findings
    from penstock.pipeline.engine.client import EngineLost, EngineRefused, check_pipeline, find_engine
    from penstock.pipeline.engine.mistakes import mistakes_in_file
    from penstock.pipeline.engine.packing import can_be_hosted, packed

    if not can_be_hosted(pipeline.spec) or find_engine(DEFAULT_DATA_DIR) is None:
        return None
    try:
        found = check_pipeline(DEFAULT_DATA_DIR, pipeline.spec.name, packed(pipeline.spec), pipeline.directory)
    except (OSError, EngineLost, EngineRefused):
        return None  # a Spark of our own can tell
    problems = mistakes_in_file(found["problems"], pipeline.origin)
    problems.sort(key=lambda problem: (problem.line, problem.column))
    return Findings(problems, mistakes_in_file(found["notes"], pipeline.origin))


def _check_program(file: Path, no_sql: bool) -> tuple[PipelineSpec, Findings]:
    if no_sql:
        raise usage_error("--no-sql is for YAML; a program is checked by running it up to its run(), which needs Spark")
    if not file.is_file():
        raise CommandError(f"{file}: cannot be read: no such file", ExitCode.INVALID_PIPELINE)
    from penstock.pipeline.analysis import check_plan_with_spark
    from penstock.pipeline.api import ProgramChecked, checking
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline, Problem
    from penstock.pipeline.failure import PipelineFailed
    from penstock.pipeline.program import ProgramFailed, line_of, run_program
    from penstock.pipeline.spark.messages import quiet_pyspark

    with contextlib.ExitStack() as stack, quiet_pyspark():
        open_session = functools.cache(lambda: stack.enter_context(_session()))
        checked = stack.enter_context(checking(open_session))
        try:
            run_program(file, lambda _wanted: open_session())
        except ProgramChecked:
            pass  # it has reached its run()
        except SystemExit:
            pass  # a program may end as it likes; what it declared counts
        except (ProgramFailed, PipelineFailed) as failed:
            failure = failed.__cause__ if isinstance(failed, ProgramFailed) else failed
            assert isinstance(failure, Exception)
            if isinstance(failure, CommandError):  # Spark did not start
                raise failure from None
            problem = Problem(str(file), line_of(failure, file), "", _words(failure))
            raise InvalidPipeline([problem], _code(failure)) from failure
        if not checked.pipelines:
            raise CommandError(f"{file}: declares no Pipeline", ExitCode.INVALID_PIPELINE)
        pipeline = checked.pipelines[0]
        plan = pipeline.plan()
        return plan.spec, check_plan_with_spark(plan, pipeline.origin)


def _words(failure: BaseException) -> str:
    """Spark's words if it was Spark that objected."""
    from pyspark.errors import PySparkException

    from penstock.pipeline.spark.messages import explain_sql

    if isinstance(failure, PySparkException):
        return explain_sql(failure).message
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"


def _code(failure: Exception) -> ExitCode:
    from pyspark.errors import AnalysisException, ParseException

    return (
        ExitCode.INVALID_SQL if isinstance(failure, AnalysisException | ParseException) else ExitCode.INVALID_PIPELINE
    )


@contextlib.contextmanager
def _session() -> Iterator[SparkSession]:
    """A session on this machine that is used for nothing but its parser and its analyzer."""
    from penstock.pipeline.spark.java import JavaMissingError
    from penstock.pipeline.spark.jvm import JvmError
    from penstock.pipeline.spark.session import SparkSettings, start

    if sys.stderr.isatty():
        print("penstock: starting Spark to check the SQL (--no-sql leaves it out)", file=sys.stderr)
    try:
        spark = start(SparkSettings(name="penstock validate", master="local[1]", log_level="OFF"))
    except (JavaMissingError, JvmError) as missing:
        message = f"{missing}; --no-sql checks the rest"
        raise CommandError(message, ExitCode.MISSING_REQUIREMENT) from missing
    try:
        yield spark
    finally:
        spark.stop()


def _report(
    file: Path,
    spec: PipelineSpec | None,
    problems: Sequence[Problem],
    notes: Sequence[Problem],
    code: ExitCode,
    as_json: bool,
) -> None:
    if as_json:
        verdict = {
            "file": str(file),
            "valid": not problems,
            "exit_code": int(code),
            "name": spec.name if spec is not None else None,
            "guarantee": spec.guarantee if spec is not None else None,
            "problems": [asdict(problem) for problem in problems],
            "notes": [asdict(note) for note in notes],
        }
        print(json.dumps(verdict))
        return
    for problem in problems:
        print(problem, file=sys.stderr)
    for note in notes:
        print(f"{note} (note)", file=sys.stderr)
    if spec is not None and not problems:
        print(f"{file}: {_summary(spec)}")


def _summary(spec: PipelineSpec) -> str:
    from penstock.pipeline.declaration.verdicts import Kept

    ways = []
    for branch in spec.branches:
        found = branch.sink.verdict(spec.guarantee)
        assert isinstance(found, Kept)  # a refused guarantee has ended the check
        ways.append(found.how if branch.sink_name is None else f"{branch.sink_name}: {found.how}")
    return f"{spec.name} is valid; {spec.guarantee}: {'; '.join(ways)}"
