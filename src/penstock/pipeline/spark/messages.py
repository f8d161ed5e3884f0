"""What Spark says about SQL, in one line: what is wrong, where in the SQL, and the nearest name.

Owns the reading of Spark's exceptions. It must never know which file the SQL stands in.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.pipeline.declaration.choice import nearest

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_POSITION: Final = re.compile(r"\bline (\d+),? pos (\d+)\b")
_CONDITION: Final = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_NAMES_SHOWN_MAX: Final = 12
_TALKATIVE: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@dataclass(frozen=True, slots=True)
class SqlMistake:
    """`line` counts from 1, `position` from 0, as Spark does; no line, no position."""

    message: str
    line: int = 0
    position: int = 0


def silence_py4j() -> None:
    """When a JVM is killed, py4j logs stack traces to the root logger, from whatever thread was talking to it.

    There is no end to this: threads of py4j outlive the pipeline that they were for.
    """
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


@contextmanager
def quiet_pyspark() -> Iterator[None]:
    """pyspark logs every exception of SQL, with both stack traces, before it raises it. Here they become one line."""
    from pyspark.logger import PySparkLogger

    # Not by `logging.getLogger`: the first call for a name decides the class, and pyspark logs with keywords that only
    # its own class takes. It would raise a TypeError instead of the exception.
    loggers = [PySparkLogger.getLogger(name) for name in _TALKATIVE]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def explain_sql(failure: PySparkException, views: Sequence[str] = ()) -> SqlMistake:
    """`views` are the names that a query may read from."""
    text = str(failure).strip()
    found = _POSITION.search(text)
    line, position = (int(found[1]), int(found[2])) if found else (0, 0)
    return SqlMistake(_words(failure, text, views), line, position)


def _words(failure: PySparkException, text: str, views: Sequence[str]) -> str:
    condition = failure.getCondition() or ""
    parameters = failure.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = _plain(parameters.get("objectName", ""))
        columns = [_plain(column) for column in parameters.get("proposal", "").split(", ") if column]
        return no_such("column", name, columns)
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return no_such("source or earlier step", _plain(parameters.get("relationName", "")), views)
    if condition.startswith("UNRESOLVED_ROUTINE"):
        return f"no function is called '{_plain(parameters.get('routineName', ''))}'"
    if condition == "PARSE_SYNTAX_ERROR":
        return f"the SQL does not parse at {parameters.get('error', 'some point')}{parameters.get('hint', '')}"
    return first_sentence(text)


def first_sentence(text: str) -> str:
    """Spark's message without its code, its state and the plan that it prints, which holds the sources' options."""
    head = _STATE.sub("", _CONDITION.sub("", text.strip())).partition(";\n")[0]
    return " ".join(head.partition("\n\n")[0].split()).rstrip(".")


def no_such(kind: str, name: str, known: Sequence[str]) -> str:
    resembled = nearest(name, known)
    if resembled is not None:
        return f"no {kind} is called '{name}' (did you mean '{resembled}'?)"
    shown = ", ".join(list(known)[:_NAMES_SHOWN_MAX])
    return f"no {kind} is called '{name}'" + (f"; there are {shown}" if shown else "")


def _plain(quoted: str) -> str:
    return quoted.replace("`", "")
