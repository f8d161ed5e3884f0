"""How a pipeline ends badly: one line for a person, an exit code for a script, and whether trying again may help.

Owns the reading of what Spark says when a query has failed. Spark carries an exception of its Python processes as the
text of a traceback inside its own message, so the text is what is judged here. It must never know Spark itself.

Invariant: a judged line is one line, and holds no traceback.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.sinks.errors import error_in
from penstock.pipeline.spark.messages import first_sentence

BAD_ROW: Final = "PENSTOCK_BAD_ROW"
"""Begins the message of a batch that stopped at a bad row; JSON with its position and the reason follows."""

SPARK_HAS_ENDED: Final = "Spark has ended; run it again, it goes on from its last commit"

_PYTHON_ERROR: Final = re.compile(r"^\s*([A-Za-z_][\w.]*(?:Error|Exception|\w)): (.+)$", re.MULTILINE)
_OURS: Final = re.compile(r"\bpenstock\.[\w.]+\.(\w+): (.+)")
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ")
_BAD_ROW_TEXT: Final = re.compile(rf"\[{BAD_ROW}\] (\{{.*?\}})(?=\s|$)")
_NO_SPACE: Final = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded", re.IGNORECASE)
_DENIED_CODES: Final = ("AUTHENTICATION_FAILED", "AUTHORIZATION_FAILED", "UNSUPPORTED_SASL_MECHANISM")
_WRAPPERS: Final = (
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR",
    "PYTHON_DATA_SOURCE_ERROR",
    "USER_RAISED_EXCEPTION",
    "TASK_WRITE_FAILED",
    "FAILED_READ_FILE",
)
_BY_KIND: Final = {
    "UnknownTopicError": ExitCode.NOT_FOUND,
    "InvalidOption": ExitCode.INVALID_PIPELINE,
    "InvalidClientSetting": ExitCode.INVALID_PIPELINE,
    "UnknownTopic": ExitCode.SOURCE_LOST,
}
# The source speaks of options of a query; an author of a pipeline has other words for them.
_LOSS_REMEDY: Final = re.compile(r"\. To go on with the records that are there, .*")
_BEGIN_ANEW: Final = "; to begin anew with what is there now, name another directory with --checkpoint"
_UNREACHABLE: Final = ("BrokerUnreachable", "ConnectionLost")
_NO_ANSWER: Final = re.compile(r"no broker answered in time|cannot reach a broker")
_SPARK_IS_GONE: Final = re.compile(r"Py4JNetworkError|Answer from Java side is empty|SparkContext was shut down")
_OTHER_RUN: Final = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using")
# What Spark says when state or offsets in a checkpoint were made by another plan.
_OTHER_CHECKPOINT: Final = re.compile(
    r"STATE_STORE_(KEY|VALUE)_SCHEMA|STATE_STORE_.*SCHEMA|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    r"|STREAM_STATE_.*|There are \[\d+\] sources in the checkpoint offsets and now there are \[\d+\] sources"
    r"|an offset that this source did not write|INVALID_STREAMING_CHECKPOINT|MISMATCHED_.*CHECKPOINT"
)
# Errors of expressions: the same rows give the same error, however often they are tried.
_IN_THE_ROWS: Final = re.compile(
    r"\[(CAST_INVALID_INPUT|CAST_OVERFLOW\w*|DIVIDE_BY_ZERO|ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE[\w.]*"
    r"|INVALID_ARRAY_INDEX\w*|BINARY_ARITHMETIC_OVERFLOW|REMAINDER_BY_ZERO|CANNOT_PARSE_TIMESTAMP"
    r"|INVALID_INDEX_OF_ZERO|USER_RAISED_EXCEPTION|NOT_NULL_ASSERT_VIOLATION|DUPLICATED_MAP_KEY)\]"
)


class PipelineFailed(Exception):
    """The pipeline has ended and cannot go on by itself. `str(error)` is one line that a person can act upon."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.PIPELINE_FAILED) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Judgement:
    """`may_pass`: the same batch may succeed when it is tried again. `until_it_does`: something outside is down, and
    no number of attempts says that it will not come back. `by_another_run`: one that writes to the same checkpoint was
    quicker; that is the end of the one whose checkpoint it no longer is."""

    line: str
    exit_code: ExitCode
    may_pass: bool = False
    until_it_does: bool = False
    by_another_run: bool = False

    def failure(self) -> PipelineFailed:
        return PipelineFailed(self.line, self.exit_code)


def judge(text: str) -> Judgement:
    """What a failed query's message comes to. What nobody foresaw may pass, a few times."""
    return (
        _of_a_row(text)
        or _of_a_sink(text)
        or _of_ours(text)
        or _of_spark(text)
        or Judgement(_last_words(text), ExitCode.PIPELINE_FAILED, may_pass=True)
    )


def _of_a_row(text: str) -> Judgement | None:
    found = _BAD_ROW_TEXT.search(text.replace("\\n", "\n"))
    if found is None:
        return None
    try:
        told = json.loads(found[1])
    except ValueError:
        return Judgement(f"a bad row: {found[1]}", ExitCode.PIPELINE_FAILED)
    position = told.get("__position") or {}
    place = position.get("topic") or "a source"
    if "offset" in position:
        place = f"{place} partition {position['partition']} offset {position['offset']}"
    remedy = "repair the source, or set on_error to drop or {dead_letters: TOPIC}"
    line = f"{place}: {told.get('reason', 'a bad row')}; nothing of its micro-batch was written: {remedy}"
    return Judgement(line, ExitCode.PIPELINE_FAILED)


def _of_a_sink(text: str) -> Judgement | None:
    from penstock.pipeline.topics.sink_errors import BatchInterrupted, Fenced, kind_of

    table = error_in(text)
    if table is not None:
        return Judgement(f"sink: {table}", table.exit_code, table.may_pass, until_it_does=table.may_pass)
    kind = kind_of(text)
    if kind is Fenced:
        return Judgement(_behind(text, Fenced.condition), ExitCode.FENCED)
    if kind is BatchInterrupted:
        line = _behind(text, BatchInterrupted.condition)
        return Judgement(line, ExitCode.PIPELINE_FAILED, may_pass=True)
    return None


def _of_ours(text: str) -> Judgement | None:
    found = _OURS.findall(text)
    if not found:
        return None
    kind, message = found[-1][0], " ".join(found[-1][1].split())
    if any(code in message for code in _DENIED_CODES):
        return Judgement(message, ExitCode.ACCESS_DENIED)
    if kind in _UNREACHABLE or _NO_ANSWER.search(message):
        return Judgement(message, ExitCode.UNREACHABLE, may_pass=True, until_it_does=True)
    if kind == "DataLossError":
        return Judgement(_LOSS_REMEDY.sub(_BEGIN_ANEW, message), ExitCode.SOURCE_LOST)
    if kind in _BY_KIND:
        return Judgement(message, _BY_KIND[kind])
    if kind == "PipelineFailed":
        return Judgement(message, ExitCode.PIPELINE_FAILED)
    return Judgement(message, ExitCode.PIPELINE_FAILED, may_pass=True)


def _of_spark(text: str) -> Judgement | None:
    if _NO_SPACE.search(text):
        line = "no space is left on the disk of the checkpoint, the state or a local sink; make room and run it again"
        return Judgement(f"{line}: it goes on from its last commit", ExitCode.DISK_FULL)
    if _SPARK_IS_GONE.search(text):
        return Judgement(SPARK_HAS_ENDED, ExitCode.ENGINE_LOST)
    if _OTHER_RUN.search(text):
        line = "another run of this pipeline uses the same checkpoint; this one stops"
        return Judgement(line, ExitCode.FENCED, by_another_run=True)
    if _OTHER_CHECKPOINT.search(text):
        line = f"the checkpoint does not fit this pipeline: {_last_words(text)}"
        remedy = "undo the change, or begin anew with another --checkpoint"
        return Judgement(f"{line}; {remedy}", ExitCode.CHECKPOINT_MISMATCH)
    if _IN_THE_ROWS.search(text):
        return Judgement(_last_words(text), ExitCode.PIPELINE_FAILED)
    return None


def _behind(text: str, condition: str) -> str:
    message = text.rpartition(f"[{condition}]")[2].strip()
    return " ".join(message.partition("\n")[0].split())


def _last_words(text: str) -> str:
    """The innermost message: Spark and Python both put what wraps it around it."""
    conditions = [found.end() for found in _CONDITION.finditer(text) if found[1] not in _WRAPPERS]
    python = [(name, rest) for name, rest in _PYTHON_ERROR.findall(text) if "Py4J" not in name]
    if conditions:
        return first_sentence(text[conditions[-1] :].partition("\n")[0])
    if python:
        name, rest = python[-1]
        return f"{name.rpartition('.')[2]}: {' '.join(rest.split())}"
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "File "))
    ]
    return first_sentence(lines[0]) if lines else "the query failed without a message"
