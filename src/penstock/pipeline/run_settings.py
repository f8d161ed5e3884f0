"""How a pipeline is run, as opposed to what it is: what the command asks for, who gets the events, and when to stop.

It must stay quick to import: the command and the client of the engine use it without Spark.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.core.exit_codes import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Event = Mapping[str, Any]
"""`event` says what happened: starting, started, batch, progress, idle, rows, waiting, resumed, restarting, stopped,
failed; see docs/pipelines.md."""


def ignore(_event: Event) -> None:
    """For who is not interested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    directory: Path = field(default_factory=Path.cwd)  # what relative paths mean
    bootstrap_servers: str | None = None  # for what names no brokers itself; None: the embedded broker
    checkpoint: str | None = None  # instead of the pipeline's own
    master: str | None = None
    once: bool = False
    report: Callable[[Event], None] = ignore  # returns at once
    stop: threading.Event = field(default_factory=threading.Event)  # when set: finish the batch and return
    spark: SparkSession | None = None  # of an engine that hosts the pipeline; None: one of its own


class StopRequest:
    """Whether a signal asked a run to stop, and which."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def end_unfinished(self) -> None:
        """For a run that was to process all available records: a caller must not take a stop for the end of them.

        Raises what the signal would have raised: KeyboardInterrupt, or SystemExit with the code of a SIGTERM.
        """
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal == signal.SIGTERM:
            raise SystemExit(int(ExitCode.TERMINATED))


@contextmanager
def stopping_on_signals(ask_to_stop: Callable[[], None]) -> Iterator[StopRequest]:
    """The first ctrl-C or SIGTERM asks the pipeline to finish its batch; a second ctrl-C does not wait for it.

    Only the main thread receives signals. A run in another thread is stopped by its owner.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def ask(number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        request.signal = signal.Signals(number)
        ask_to_stop()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
