from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.errors import BrokerUnreachable
from penstock.monitoring.logs import JsonFormatter


def logged(write: Callable[[logging.Logger], None]) -> dict[str, Any]:
    """The one line that a formatter makes of it."""
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger = logging.Logger("penstock.broker.node")
    logger.addHandler(Kept())
    write(logger)
    (record,) = records
    line = JsonFormatter().format(record)
    assert "\n" not in line
    shown: dict[str, Any] = json.loads(line)
    return shown


def test_time_level_logger_and_message() -> None:
    shown = logged(lambda logger: logger.warning("topic '%s' has\ntwo lines", "täglich"))
    assert list(shown) == ["time", "level", "logger", "message"]
    assert shown["level"] == "WARNING"
    assert shown["logger"] == "penstock.broker.node"
    assert shown["message"] == "topic 'täglich' has\ntwo lines"


def test_time_is_utc_with_milliseconds() -> None:
    record = logging.makeLogRecord({"msg": "x", "created": 1_700_000_000.25, "levelname": "INFO", "name": "penstock"})
    assert json.loads(JsonFormatter().format(record))["time"] == "2023-11-14T22:13:20.250Z"


def test_an_exception_is_one_string_and_its_condition_the_code() -> None:
    def write(logger: logging.Logger) -> None:
        try:
            raise BrokerUnreachable("127.0.0.1:9092 does not answer")
        except BrokerUnreachable:
            logger.exception("cannot go on")

    shown = logged(write)
    assert shown["code"] == "PENSTOCK_BROKER_UNREACHABLE"
    assert shown["exception"].startswith("Traceback")
    assert "BrokerUnreachable: 127.0.0.1:9092 does not answer" in shown["exception"]


@pytest.mark.parametrize("text", ["cannot go on: %s", "%s"])
def test_the_condition_of_an_error_that_is_told(text: str) -> None:
    shown = logged(lambda logger: logger.error(text, BrokerUnreachable("away")))
    assert shown["code"] == "PENSTOCK_BROKER_UNREACHABLE"


def test_an_error_of_python_has_no_code() -> None:
    shown = logged(lambda logger: logger.error("no: %s", ValueError("x"), extra={"code": None}))
    assert "code" not in shown


def test_a_message_that_cannot_be_encoded_is_still_a_line() -> None:
    shown = logged(lambda logger: logger.warning("%s", "\ud800\x00"))
    assert shown["message"] == "\ud800\x00"
