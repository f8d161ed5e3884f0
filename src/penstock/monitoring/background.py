"""Metrics of a process without an event loop of its own: a thread has one for them.

The metrics are fed by other threads. They are plain numbers that only grow or are replaced, so a scrape sees each of
them either before or after a change.
"""

from __future__ import annotations

import asyncio
import socket
import threading

from penstock.monitoring.http_server import MetricsServer, Write


class MetricsThread:
    """Serves from the constructor to `close`."""

    def __init__(self, bound: socket.socket, write: Write) -> None:
        self._bound = bound
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(write,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self, write: Write) -> None:
        try:
            self._loop.run_until_complete(self._serve(write))
        finally:
            self._loop.close()
            self._bound.close()

    async def _serve(self, write: Write) -> None:
        server = MetricsServer(write)
        await server.listen(self._bound)
        await self._stop.wait()
        server.close()
        await server.wait_closed()
