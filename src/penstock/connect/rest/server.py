"""The REST server of a worker: uvicorn in threads of its own, a clean stop, and errors of listening at the start.

Owns sockets and threads. `application.py` owns what is answered.

A worker's name among its peers is the address of its REST API, so listeners are bound (`bind`) before the application
exists that they serve.

Invariants: `serve` returns when every listener accepts connections; after `stop` no thread and no socket is left.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import uvicorn
from starlette.types import ASGIApp

from penstock.connect.config.definition import ConfigException
from penstock.connect.rest.listeners import Listener, advertised_url, parse_listeners, tls_context

_BACKLOG: Final = 128
_SHUTDOWN_S: Final = 5
_START_TIMEOUT_S: Final = 30.0
_CONNECTIONS_MAX: Final = 512


class RestServer:
    """`config` has the worker's properties; `listeners=http://127.0.0.1:0` takes a free port."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._listeners = parse_listeners(config)
        if not self._listeners:
            raise ConfigException("listeners: no listener is given", "listeners")
        self._bound: list[_Bound] = []
        self._running: list[_Running] = []

    @property
    def address(self) -> str:
        """The URL of the first listener."""
        return self._bound[0].url

    @property
    def addresses(self) -> Sequence[str]:
        return [each.url for each in self._bound]

    @property
    def advertised_url(self) -> str:
        """Where other workers and users of `Location` headers find this one."""
        first = self._bound[0]
        scheme = self._config.get("rest.advertised.listener", first.listener.scheme)
        chosen = next((each for each in self._bound if each.listener.scheme == scheme), first)
        return advertised_url(self._config, chosen.listener, chosen.port)

    def bind(self) -> None:
        """Raises ConfigException for an address that cannot be had."""
        try:
            for listener in self._listeners:
                self._bound.append(_Bound.of(listener))
        except BaseException:
            self.stop()
            raise

    def serve(self, application: ASGIApp) -> None:
        """Raises ConfigException for TLS settings that are wrong."""
        context = tls_context(self._config) if any(each.scheme == "https" for each in self._listeners) else None
        try:
            for bound in self._bound:
                settings = uvicorn.Config(
                    application,
                    lifespan="off",
                    log_config=None,
                    access_log=False,
                    http="h11",
                    ws="none",
                    loop="asyncio",
                    server_header=False,
                    limit_concurrency=_CONNECTIONS_MAX,
                    timeout_graceful_shutdown=_SHUTDOWN_S,
                )
                settings.load()
                settings.ssl = context if bound.listener.scheme == "https" else None
                self._running.append(_Running(bound, settings))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Running requests may finish. Does nothing if it is not running."""
        running, self._running = self._running, []
        for each in running:
            each.ask_to_stop()
        for each in running:
            each.join()
        listening, self._bound = self._bound, []
        for bound in listening:
            bound.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextlib.contextmanager
def serving(application: ASGIApp, config: Mapping[str, str]) -> Iterator[RestServer]:
    """A server that runs while the context lasts, for an application that does not depend on its address."""
    with RestServer(config) as server:
        server.bind()
        server.serve(application)
        yield server


@dataclass(frozen=True, slots=True)
class _Bound:
    listener: Listener
    socket: socket.socket

    @classmethod
    def of(cls, listener: Listener) -> _Bound:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((listener.host, listener.port))
            bound.listen(_BACKLOG)
        except OSError as failure:
            bound.close()
            raise ConfigException(
                f"listeners: cannot listen on {listener.url(listener.port)}: {failure.strerror or failure}", "listeners"
            ) from failure
        return cls(listener, bound)

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return self.listener.url(self.port)


class _Server(uvicorn.Server):
    """Tells when it has started; the worker's process handles signals itself."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_started = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_started.set()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


class _Running:
    def __init__(self, bound: _Bound, settings: uvicorn.Config) -> None:
        self._server = _Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, args=([bound.socket],), name=f"rest-{bound.port}", daemon=True
        )
        self._thread.start()
        if not self._server.has_started.wait(_START_TIMEOUT_S):
            raise ConfigException(f"the REST server on {bound.url} did not start", "listeners")

    def ask_to_stop(self) -> None:
        self._server.should_exit = True

    def join(self) -> None:
        self._thread.join()
