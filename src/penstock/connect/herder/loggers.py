"""Levels of this worker's loggers, by Kafka Connect's names for them (`/admin/loggers`, KIP-495 and KIP-976).

Owns when a level was changed. Loggers and their hierarchy are Python's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from penstock.connect.herder.herder import ConnectRestError

ROOT: Final = "root"
_OFF: Final = logging.CRITICAL + 10
_TRACE: Final = 5
_LEVELS: Final[Mapping[str, int]] = {
    "OFF": _OFF,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
}


class Loggers:
    def __init__(self) -> None:
        self._modified_ms: dict[str, int] = {}

    def level(self, name: str) -> Mapping[str, Any] | None:
        """None for a logger that does not exist."""
        logger = self._existing().get(name)
        return None if logger is None else self._shown(name, logger)

    def levels(self) -> dict[str, Mapping[str, Any]]:
        return {name: self._shown(name, logger) for name, logger in sorted(self._existing().items())}

    def set_level(self, name: str, level: str) -> list[str]:
        """Of the logger and of those below it. Returns the names of those that changed."""
        if level.upper() not in _LEVELS:
            raise ConnectRestError(404, f"invalid log level '{level}'.")
        logging.getLogger(None if name == ROOT else name)
        is_below = {
            each: logger
            for each, logger in self._existing().items()
            if name in (ROOT, each) or each.startswith(f"{name}.")
        }
        now_ms = int(time.time() * 1000)
        changed = {each: logger for each, logger in is_below.items() if logger.level != _LEVELS[level.upper()]}
        for each, logger in changed.items():
            logger.setLevel(_LEVELS[level.upper()])
            self._modified_ms[each] = now_ms
        return sorted(changed)

    def _shown(self, name: str, logger: logging.Logger) -> Mapping[str, Any]:
        return {"level": _name(logger.getEffectiveLevel()), "last_modified": self._modified_ms.get(name)}

    @staticmethod
    def _existing() -> dict[str, logging.Logger]:
        known = {
            name: each for name, each in logging.root.manager.loggerDict.items() if isinstance(each, logging.Logger)
        }
        return {ROOT: logging.getLogger(), **known}


def _name(level: int) -> str:
    """The name of the next level that is at least as severe as this one."""
    at_least = [(number, name) for name, number in _LEVELS.items() if number >= level]
    return min(at_least)[1] if at_least else "OFF"
