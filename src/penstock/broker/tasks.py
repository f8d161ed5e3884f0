"""The background tasks of a node: one supervised set, which ends with the node.

A task that ends with an error is a bug: nothing that it did is done any more, so that the broker stops and says why.
Errors that are expected (a broker that cannot be reached, a refused proposal) are handled inside a task.

Invariant: no task outlives `close`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Tasks:
    """Belongs to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_fatal: Callable[[str], None]) -> None:
        self._loop = loop
        self._on_fatal = on_fatal
        self._running: dict[asyncio.Task[None], None] = {}
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._running)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` until it ends or the node closes. It may be cancelled at any time; a closed node begins none."""
        if self.is_closed:
            work.close()
            return
        task = self._loop.create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Ends all tasks; each at its next turn. No further one is started."""
        self.is_closed = True
        for task in tuple(self._running):
            task.cancel()

    async def close(self) -> None:
        """Ends all tasks, and waits until they have ended."""
        self.cancel()
        while self._running:
            await asyncio.wait(tuple(self._running))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.error("the task %s failed", task.get_name(), exc_info=error)
            self._on_fatal(f"the task {task.get_name()} failed: {error!r}; this is a bug, please report it")
