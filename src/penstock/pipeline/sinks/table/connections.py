"""The connection that a process of Spark keeps to a pipeline's database, from batch to batch.

Invariant: a connection that failed is not used again, and a forked process never uses its parent's.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import DatabaseUnavailable
from penstock.pipeline.sinks.table.target import TableTarget

Result = TypeVar("Result")
_GIVE_UP_AFTER_S: Final = 60.0
_FIRST_PAUSE_S: Final = 0.05
_PAUSE_S_MAX: Final = 2.0
_kept: dict[tuple[int, str, str], Database] = {}


def in_worker(target: TableTarget) -> Database:
    """Opened when first asked for, in the processes that Spark starts."""
    place = (os.getpid(), target.url, target.pipeline)
    if place not in _kept:
        _kept[place] = target.dialect.connect(target.url)
    return _kept[place]


def forget(target: TableTarget) -> None:
    database = _kept.pop((os.getpid(), target.url, target.pipeline), None)
    if database is not None:
        database.close()


@contextmanager
def in_driver(target: TableTarget) -> Iterator[Database]:
    """For the length of a block: the driver's process belongs to the user."""
    database = target.dialect.connect_in_driver(target.url)
    try:
        yield database
    finally:
        database.close()


def trying_again(target: TableTarget, step: Callable[[Database], Result]) -> Result:
    """Runs a step that may be repeated as a whole, on a new connection while the database is away or too busy."""

    def once() -> Result:
        try:
            return step(in_worker(target))
        except BaseException:
            # It has failed, or a transaction may still be open on it.
            forget(target)
            raise

    return patiently(once)


def patiently(step: Callable[[], Result]) -> Result:
    """Runs a step again as long as the database is away, up to a minute. It has to leave nothing behind."""
    deadline = time.monotonic() + _GIVE_UP_AFTER_S
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return step()
        except DatabaseUnavailable:
            if time.monotonic() + pause_s > deadline:
                raise
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 (spreads retries, guards nothing)
            pause_s = min(pause_s * 2, _PAUSE_S_MAX)
