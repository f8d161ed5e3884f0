"""The levels of this process's loggers, which DescribeConfigs and IncrementalAlterConfigs show and change (KIP-412).

Loggers have Python's names (`penstock.broker.node`) and `root`; levels have Kafka's. Changes last until the process
ends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.metadata.config_changes import ConfigOperation, Operation
from penstock.protocol.error_codes import BrokerError, ErrorCode

ROOT: Final = "root"
INHERITED: Final = ""
"""The level of a logger that has none of its own."""

_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {number: name for name, number in _LEVELS.items()}


def current_levels() -> dict[str, str]:
    """The level in effect, by the name of the logger."""
    loggers = {ROOT: logging.getLogger()}
    loggers.update(
        (name, logger)
        for name, logger in sorted(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger)
    )
    return {name: _text(logger.getEffectiveLevel()) for name, logger in loggers.items()}


def changed_levels(current: Mapping[str, str], operations: Iterable[ConfigOperation]) -> dict[str, str]:
    """The levels that the operations ask for. Raises the BrokerError for the client; nothing has changed yet."""
    levels: dict[str, str] = {}
    for name, operation, value in operations:
        if operation not in (Operation.SET, Operation.DELETE):
            raise BrokerError(ErrorCode.INVALID_REQUEST, "The level of a logger can be set and deleted only.")
        if name not in current:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"There is no logger {name[:100]!r}.")
        if operation == Operation.DELETE:
            if name == ROOT:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "The level of the root logger cannot be deleted.")
            levels[name] = INHERITED
        elif value in _LEVELS:
            levels[name] = value
        else:
            raise BrokerError(
                ErrorCode.INVALID_CONFIG, f"{name}: {str(value)[:100]!r} is no level; expected {', '.join(_LEVELS)}."
            )
    return levels


def set_levels(levels: Mapping[str, str]) -> None:
    for name, level in levels.items():
        logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
        logger.setLevel(logging.NOTSET if level == INHERITED else _LEVELS[level])


def _text(level: int) -> str:
    """Kafka's name of the level, or of the next one below a level between two."""
    return _NAMES[max((number for number in _NAMES if number <= level), default=logging.DEBUG)]
