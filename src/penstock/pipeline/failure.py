"""How a pipeline fails: one line for a person, an exit code for a script, and whether a retry may help.

`classify` is the only way from an exception to that. An error of ours carries its condition, also through Spark
(`core/errors.py`); an error of Spark's is looked up in `spark/conditions.py`; any other is unexpected. This module must
not know Spark itself.

Invariant: the line of a classification is one line, and holds no traceback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.error_table import (
    BAD_ROW,
    CONDITION_BY_EXIT_CODE,
    ERRORS,
    EXPRESSION_FAILED,
    FUNCTION_FAILED,
    UNEXPECTED,
    ErrorEntry,
    Retry,
)
from penstock.core.errors import PenstockError, find_error
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.spark.conditions import spark_failure
from penstock.pipeline.spark.internals import java_messages
from penstock.pipeline.spark.messages import first_sentence
from penstock.pipeline.spark.python_tracebacks import function_failure

_PYTHON_ERROR: Final = re.compile(r"^\s*([A-Za-z_][\w.]*(?:Error|Exception|\w)): (.+)$", re.MULTILINE)
_PLAN: Final = "=== Streaming Query ==="
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ")
# Conditions that only say where in Spark an exception was caught.
_WRAPPERS: Final = (
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR",
    "PYTHON_DATA_SOURCE_ERROR",
    "USER_RAISED_EXCEPTION",
    "TASK_WRITE_FAILED",
    "FAILED_READ_FILE",
)


class PipelineFailed(PenstockError):
    """The pipeline has ended and cannot continue by itself. `str(error)` is one line that a person can act upon."""

    def __init__(
        self, message: str, exit_code: ExitCode = ExitCode.PIPELINE_FAILED, condition: str | None = None
    ) -> None:
        super().__init__(" ".join(message.split()), exit_code, condition)
        self.exit_code = exit_code

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def entry(self) -> ErrorEntry:
        return ERRORS[self.args[2] or CONDITION_BY_EXIT_CODE[self.exit_code]]


@dataclass(frozen=True, slots=True)
class Classification:
    """What a failed query's exception means. `condition` is the name in docs/errors.md."""

    line: str
    condition: str
    exit_code: ExitCode
    retry: Retry

    @classmethod
    def of(cls, line: str, entry: ErrorEntry) -> Classification:
        return cls(line, entry.condition, entry.exit_code, entry.retry)

    def failure(self) -> PipelineFailed:
        return PipelineFailed(self.line, self.exit_code, self.condition)


def classify(failure: BaseException) -> Classification:
    """Looks for an error of ours among the Python causes first, then in everything that Spark says."""
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, PenstockError):
            return _of_ours(cause)
        cause = cause.__cause__
    return classify_text(failure_text(failure))


def classify_text(text: str) -> Classification:
    """For a failure of which only the message is left."""
    ours = find_error(text)
    if ours is not None:
        return _of_ours(ours)
    spark = spark_failure(text)
    if spark is not None:
        return Classification.of(spark.line.format(message=_innermost_message(text)), ERRORS[spark.condition])
    function = function_failure(text)
    if function is not None:
        return Classification.of(function, ERRORS[FUNCTION_FAILED])
    return Classification.of(_innermost_message(text), ERRORS[UNEXPECTED])


def failure_text(failure: BaseException) -> str:
    """Everything that Spark says of a failure: its own message, and those of its causes in Java and in Python.

    The query's plan behind a message is left out: literals in it look like errors.
    """
    texts = [text.partition(_PLAN)[0] for text in (str(failure), *java_messages(failure))]
    own: BaseException | None = failure.__cause__
    while own is not None:
        texts.append(f"{type(own).__name__}: {own}")
        own = own.__cause__
    return "\n".join(texts)


def _of_ours(error: PenstockError) -> Classification:
    entry = error.entry
    line = " ".join(error.summary.split())
    if entry.condition in (BAD_ROW, EXPRESSION_FAILED):
        line = f"{_position(error.fields)}: {line}"
    elif "key" in error.fields:
        line = f"{error.fields['key']}: {line}"
    return Classification.of(line + entry.hint, entry)


def _position(fields: Mapping[str, Any]) -> str:
    """Where a bad row stands."""
    place = fields.get("topic") or "a source"
    return f"{place} partition {fields['partition']} offset {fields['offset']}" if "offset" in fields else str(place)


def _innermost_message(text: str) -> str:
    """Spark and Python both wrap a message into others."""
    conditions = [found.end() for found in _CONDITION.finditer(text) if found[1] not in _WRAPPERS]
    if conditions:
        return first_sentence(text[conditions[-1] :].partition("\n")[0])
    python = [(name, rest) for name, rest in _PYTHON_ERROR.findall(text) if "Py4J" not in name]
    if python:
        name, rest = python[-1]
        return f"{name.rpartition('.')[2]}: {' '.join(rest.split())}"
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "File "))
    ]
    return first_sentence(lines[0]) if lines else "the query failed without a message"
