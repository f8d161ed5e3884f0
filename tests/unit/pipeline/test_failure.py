"""Failed queries, as one line, an exit code and a retry policy. Texts of Spark are cut from real ones."""

from __future__ import annotations

import ast
import traceback
from pathlib import Path

import pytest

import penstock.pipeline
from penstock.core.error_table import ERRORS, Retry
from penstock.core.errors import BrokerUnreachable, PenstockError, UnknownTopic
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed, classify, classify_text
from penstock.pipeline.sinks.table.errors import DatabaseUnavailable, TableRefused
from penstock.pipeline.sinks.table.errors import Fenced as TableFenced
from penstock.pipeline.topics.errors import (
    BatchInterrupted,
    BatchNotBegun,
    DataLossError,
    Fenced,
    UnknownOffsetError,
    UnknownTopicError,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

WRAPPED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: "


def behind_spark(error: BaseException) -> str:
    """What Spark says of an exception of one of its Python processes."""
    try:
        raise error
    except type(error):
        trace = traceback.format_exc()
    return f"{WRAPPED}{trace}\n\tat org.apache.spark.api.python.Runner.run(Runner.scala:1)"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (
            behind_spark(DataLossError("topic 'orders' partition 0 is gone")),
            ExitCode.SOURCE_LOST,
            "topic 'orders' partition 0 is gone; to start over with the records that are left, name another directory"
            " with --checkpoint",
        ),
        (
            behind_spark(UnknownTopicError("topic 'orders' does not exist")),
            ExitCode.NOT_FOUND,
            "topic 'orders' does not exist",
        ),
        (
            behind_spark(BrokerError(ErrorCode.SASL_AUTHENTICATION_FAILED, "no entry (SASL_AUTHENTICATION_FAILED)")),
            ExitCode.ACCESS_DENIED,
            "no entry (SASL_AUTHENTICATION_FAILED)",
        ),
        (behind_spark(Fenced("another run has taken over")), ExitCode.FENCED, "another run has taken over"),
        (behind_spark(TableFenced("another run has taken over")), ExitCode.FENCED, "sink: another run has taken over"),
        (
            behind_spark(TableRefused("column 'a' is \"missing\"")),
            ExitCode.SINK_REFUSED,
            "sink: column 'a' is \"missing\"",
        ),
        (behind_spark(UnknownTopic("topic 'a' does not exist")), ExitCode.SOURCE_LOST, "topic 'a' does not exist"),
        (behind_spark(UnknownOffsetError("not ours")), ExitCode.CHECKPOINT_MISMATCH, "not ours"),
        (
            behind_spark(PipelineFailed("the checkpoint cannot be written", ExitCode.DISK_FULL)),
            ExitCode.DISK_FULL,
            "the checkpoint cannot be written",
        ),
        (
            WRAPPED + "java.io.IOException: No space left on device",
            ExitCode.DISK_FULL,
            "no space is left on the disk of the checkpoint, the state or a local sink; free some and run the pipeline"
            " again: it resumes from its last commit",
        ),
        (
            # A disk that takes no more files.
            WRAPPED + "no\njava.io.IOException: Mkdirs failed to create file:/c/state/0 (exists=false, cwd=file:/work)",
            ExitCode.NOT_WRITABLE,
            "a directory of the checkpoint or the state cannot be made: IOException: Mkdirs failed to create"
            " file:/c/state/0 (exists=false, cwd=file:/work); free some space (`df -i` counts files), or let the user"
            " of this pipeline write there",
        ),
        (
            WRAPPED
            + '[CAST_INVALID_INPUT] The value \'x\' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018',
            ExitCode.PIPELINE_FAILED,
            'The value \'x\' of the type "STRING" cannot be cast to "INT"',
        ),
        (
            WRAPPED + "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match. SQLSTATE: XXKST",
            ExitCode.CHECKPOINT_MISMATCH,
            "the checkpoint does not fit this pipeline: Provided key schema does not match; undo the change, or start"
            " over with another --checkpoint",
        ),
        (
            WRAPPED + '[USER_RAISED_EXCEPTION] [PENSTOCK_BAD_ROW] {"message":"the value is null","stage":"parse",'
            '"topic":"orders","partition":3,"offset":17} SQLSTATE: P0001',
            ExitCode.PIPELINE_FAILED,
            "orders partition 3 offset 17: the value is null; nothing of its micro-batch was written: repair the "
            "source, or set on_error to drop or {dead_letters: TOPIC}",
        ),
    ],
)
def test_some_failures_end_the_pipeline(text: str, code: ExitCode, line: str) -> None:
    found = classify_text(text)
    assert (found.exit_code, found.line, found.retry) == (code, line, Retry.NEVER)


@pytest.mark.parametrize(
    "error",
    [
        BrokerUnreachable("offsets: no broker answered in time (connection refused)"),
        BatchNotBegun(BrokerUnreachable("a producer id: no broker answered in time (gone)")),
        DatabaseUnavailable("the database does not answer"),
    ],
)
def test_an_unavailable_server_is_waited_for(error: Exception) -> None:
    assert classify_text(behind_spark(error)).retry is Retry.UNTIL_IT_RETURNS


def test_another_run_with_the_same_checkpoint_ends_the_run_that_lost_it() -> None:
    found = classify_text(WRAPPED + "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")
    assert (found.exit_code, found.retry) == (ExitCode.FENCED, Retry.IF_CHECKPOINT_OWNED)


def test_an_unexpected_failure_is_retried_a_few_times_and_shown_in_one_line() -> None:
    found = classify_text(behind_spark(ValueError("of the author's own function")))
    assert found.retry is Retry.A_FEW_TIMES
    assert found.line == "ValueError: of the author's own function"
    assert "\n" not in classify_text("").line


def test_the_outermost_error_of_ours_decides() -> None:
    try:
        try:
            raise BrokerUnreachable("gone")
        except BrokerUnreachable as cause:
            raise BatchInterrupted("run it again") from cause
    except BatchInterrupted as error:
        for found in (classify(error), classify_text(behind_spark(error))):
            assert (found.condition, found.line) == ("PENSTOCK_BATCH_INTERRUPTED", "run it again")


def test_a_literal_in_a_query_plan_is_no_error() -> None:
    plan = "Filter if (isnull(__reason)) true else raise_error(concat([PENSTOCK_BAD_ROW] , to_json(struct(...))))"
    text = f"{WRAPPED}ValueError: odd\n=== Streaming Query ===\nLogical Plan:\n{plan}"
    assert classify_text(text).condition == "PENSTOCK_UNEXPECTED"
    failure = RuntimeError(text)
    failure.__cause__ = ValueError("odd")
    found = classify(failure)
    assert (found.condition, found.line) == ("PENSTOCK_UNEXPECTED", "ValueError: odd")


class DefinedElsewhere(PenstockError):
    """An error of a module that the classification cannot know."""

    condition = "PENSTOCK_DATABASE_FULL"


def test_a_class_may_have_any_name_and_any_module() -> None:
    error = DefinedElsewhere("the disk of the database is full")
    for found in (classify(error), classify_text(behind_spark(error))):
        assert (found.exit_code, found.retry) == (ExitCode.DISK_FULL, Retry.NEVER)
        assert found.line == "the disk of the database is full"


def test_no_code_of_pipelines_recognises_errors_by_the_name_of_a_class_or_module() -> None:
    """A text that names one of our classes or modules would be a hidden dependency of exit codes on names."""
    names = {kind.__name__ for kind in _subclasses(PenstockError)} - {"Fenced"}
    root = Path(penstock.pipeline.__file__).parent
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare | ast.Subscript | ast.Call | ast.Dict):
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        assert part.value not in names, f"{file}:{part.lineno}"
                        assert not part.value.startswith(("penstock.core.errors", r"penstock\.")), file


def test_every_error_class_names_a_condition_of_the_table() -> None:
    for kind in _subclasses(PenstockError):
        assert kind.condition in ERRORS, kind


def _subclasses(kind: type[PenstockError]) -> set[type[PenstockError]]:
    return {kind, *(found for child in kind.__subclasses__() for found in _subclasses(child))}
