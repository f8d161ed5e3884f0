"""What ctrl-C and SIGTERM mean to a command that runs a pipeline, whether here or in an engine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping_on_signals(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """The first ctrl-C or SIGTERM asks the pipeline to finish its batch; a second ctrl-C does not wait for it.

    Only a main thread can be told of signals. In another one, somebody else decides when to stop.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ask_to_stop()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
