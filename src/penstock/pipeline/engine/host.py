"""What runs a pipeline for the engine. The engine knows this interface and nothing of Spark behind it.

A pipeline on Spark is the first kind of `Host` (`spark_host.py`). A connector of Kafka Connect can be another one: what
the engine keeps, shows and steers is a desired state, events and an outcome.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.run_settings import Event


@dataclass(frozen=True, slots=True)
class Work:
    """What is to run. Relative paths mean `directory`; `file` is where the specification came from, if known."""

    name: str
    spec: Mapping[str, Any]
    settings: Mapping[str, Any]
    directory: Path
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What a host is given beside the work itself."""

    report: Callable[[Event], None]  # returns at once
    stop: threading.Event  # when set: finish the batch and return


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: an exit code for a command, and one line if there is something to say."""

    exit_code: int = int(ExitCode.OK)
    message: str | None = None
    condition: str | None = None
    may_return: bool = False  # a broker or a database was unavailable: it is worth trying again later
    details: Mapping[str, Any] = field(default_factory=dict)  # of a failure: `problems`, `mistakes`


class Runner(Protocol):
    def run(self, work: Work, run: Run) -> Outcome:
        """Runs to the end in the calling thread, and reports `started`, `progress`, `stopped` and others on the way.

        A failure is an outcome, which the engine reports. An exception is one whose text is shown to the user.
        """
        ...


class Host(Runner, Protocol):
    """Also checks pipelines that came without a file; those with one are checked by the command that has it."""

    def check(self, work: Work) -> Mapping[str, Any]:
        """`problems` and `notes`, each with `path`, `message`, `line` and `position`; nothing runs."""
        ...
