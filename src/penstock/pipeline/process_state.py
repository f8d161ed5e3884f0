"""What a process keeps beyond one run and one task, each with the reason why it cannot belong to a `PipelineRun`.

- `EmbeddedBrokers`: the broker of a data directory, started once for all pipelines of the process.
- `SharedClients`: connections of a thread: of a Python process of Spark, which runs one task after the other, and of
  each pipeline of an engine.
- `ProgramHost`: the command that runs or checks a program in this process; the program creates its own pipelines.
- `topics.row_encoding.PartitionCounts` and `MessageSizeLimits`, `topics.task_output.OwnProducers`: answers of brokers
  that the next task of the same process uses again, because asking costs a round trip.
- `topics.transaction.OwnRun`: the identity of a process that plans micro-batches, where no driver names a run.
- `spark.session._running`: the JVM. py4j has one gateway for a process.

`process_wide` is the only way to such an object. Nothing here connects reading a source to running its pipeline.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from penstock.wire.client import WireClient

T = TypeVar("T")
_CLIENTS_MAX: Final = 4  # of each thread
_Key = tuple[int, tuple[tuple[str, str], ...]]  # the thread, and the settings
_instances: Final[dict[type[Any], object]] = {}


def process_wide(kind: type[T]) -> T:
    """The one instance of the class in this process."""
    if kind not in _instances:
        _instances[kind] = kind()
    return cast(T, _instances[kind])


class EmbeddedBrokers:
    """Brokers of data directories, started when they are first needed and held until the process ends."""

    def __init__(self) -> None:
        self._started: dict[Path, str] = {}
        self._open = contextlib.ExitStack()

    def bootstrap_servers(self, data_dir: Path) -> str:
        from penstock.client.local_broker.bootstrap import embedded_broker

        if data_dir not in self._started:
            if not self._started:
                atexit.register(self._open.close)
            self._started[data_dir] = self._open.enter_context(embedded_broker(data_dir))
        return self._started[data_dir]


class SharedClients:
    """Wire clients that outlive a task: connecting costs more than most tasks.

    Invariant: a client belongs to one process and one thread. Threads that shared one would read each other's answers.
    """

    def __init__(self) -> None:
        self._clients: dict[_Key, WireClient] = {}
        # Sockets that the interpreter finds open at its end are a warning on stderr.
        atexit.register(self._close)

    def _close(self) -> None:
        while self._clients:
            self._clients.popitem()[1].close()

    def get(self, settings: Mapping[str, str]) -> WireClient:
        from penstock.wire.client import WireClient

        key = _key(settings)
        client = self._clients.get(key)
        if client is None:
            self._close_some(key[0])
            client = self._clients[key] = WireClient(settings)
        return client

    def _close_some(self, thread: int) -> None:
        """Those of threads that have ended, and the oldest of this one where it has too many."""
        alive = {each.ident for each in threading.enumerate()}
        known = tuple(self._clients)
        own = [key for key in known if key[0] == thread]
        surplus = own[: max(0, len(own) - _CLIENTS_MAX + 1)]
        for key in [*surplus, *(key for key in known if key[0] not in alive)]:
            client = self._clients.pop(key, None)
            if client is not None:
                client.close()

    def discard(self, settings: Mapping[str, str]) -> None:
        """After an error that left the client in an unknown state."""
        client = self._clients.pop(_key(settings), None)
        if client is not None:
            client.close()


def _key(settings: Mapping[str, str]) -> _Key:
    # Not `get_ident`: this makes a thread that Python did not start known to `enumerate`.
    thread = threading.current_thread().ident
    assert thread is not None, "it runs"
    return thread, tuple(sorted(settings.items()))


class ProgramHost:
    """`open_run` gives a new `Pipeline` of the program its run; None in a program that Python itself runs."""

    def __init__(self) -> None:
        self.open_run: Callable[[Any], Any] | None = None


def shared_client(settings: Mapping[str, str]) -> WireClient:
    return process_wide(SharedClients).get(settings)


def discard_client(settings: Mapping[str, str]) -> None:
    process_wide(SharedClients).discard(settings)
