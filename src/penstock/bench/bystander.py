"""A server that takes a flood in the broker's place, in its own process: `python -m penstock.bench.bystander`.

What a producer notices of a flood that does not reach its broker is the attacker's own CPU time: all processes share
the machine's cores. It reads, answers nothing, and hangs up a while after the first bytes, as a broker does that wants
authentication. It prints its port, and ends when its stdin closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from penstock.bench.measurement import MeasurementError

_HANG_UP_AFTER_S: Final = 0.1


@contextlib.contextmanager
def bystander() -> Iterator[str]:
    """Its address."""
    command = [sys.executable, "-m", "penstock.bench.bystander"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                raise MeasurementError("the server that takes a flood in the broker's place did not start")
            yield f"127.0.0.1:{port}"
            process.stdin.close()
        finally:
            process.kill()


class _Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_HANG_UP_AFTER_S, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve())
