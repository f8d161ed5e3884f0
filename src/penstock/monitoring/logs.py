"""How a process writes its log to stderr: lines for people, or one JSON object a line for programs.

A process that logs JSON writes nothing else to stderr: what commands tell people goes through the log, too.

Invariant: one record is one line, also with an exception.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

LogFormat = Literal["text", "json"]
LOG_FORMATS: Final[tuple[LogFormat, ...]] = ("text", "json")
_TEXT: Final = "%(asctime)s %(levelname)s %(message)s"


class JsonFormatter(logging.Formatter):
    """time, level, logger and message; code and exception where there are any."""

    def format(self, record: logging.LogRecord) -> str:
        shown: dict[str, Any] = {
            "time": _iso_8601(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        code = _code(record)
        if code is not None:
            shown["code"] = code
        if record.exc_info:
            shown["exception"] = self.formatException(record.exc_info)
        return json.dumps(shown, default=str)  # ASCII, which every locale can encode


def configure_logs(log_format: LogFormat) -> None:
    """For the whole process, once. PENSTOCK_LOG_LEVEL is the level; the default is WARNING."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=os.environ.get("PENSTOCK_LOG_LEVEL", "WARNING"), handlers=[handler])


def logs_json() -> bool:
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def print_error(message: str, *, command: str | None = "penstock", code: str | None = None) -> None:
    """A failure that ends a command: one line. `command` stands before it; None if the message says where it is."""
    if logs_json():
        logging.getLogger((command or "penstock").replace(" ", ".")).error("%s", message, extra={"code": code})
    else:
        print(message if command is None else f"{command}: {message}", file=sys.stderr)


def say(message: str, logger_name: str, level: int = logging.INFO) -> None:
    """What a command tells people who watch it, as a line of the log: it is wanted, whatever the level of the log."""
    logging.getLogger().handle(logging.LogRecord(logger_name, level, "", 0, message, None, None))


def _iso_8601(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _code(record: logging.LogRecord) -> str | None:
    """The condition of core/error_table.py: of the record, or of the error that it tells of."""
    given = getattr(record, "code", None)
    if isinstance(given, str):
        return given
    errors: list[object] = [record.exc_info[1]] if record.exc_info else []
    if isinstance(record.args, Mapping):
        errors += record.args.values()
    else:
        errors += record.args or ()
    for error in errors:
        entry = getattr(error, "entry", None) if isinstance(error, BaseException) else None
        if entry is not None:
            return str(entry.condition)
    return None
