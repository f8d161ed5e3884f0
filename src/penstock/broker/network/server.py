"""Every listener of the broker, and the connections that came in by them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from penstock.broker.metrics import ListenerMetrics
from penstock.broker.network.connection import Connection
from penstock.broker.network.connection_limits import ConnectionLimits
from penstock.broker.network.endpoints import BoundListener
from penstock.broker.network.request_memory import RequestMemory
from penstock.broker.network.sender import NewSender, Sender
from penstock.broker.node import Node
from penstock.core import limits


class Server:
    """Closes connections above the limits of the broker, and those that were idle for `connections.max.idle.ms`.

    `new_sender` makes the way out of a connection; a simulation passes one that needs no socket.
    """

    def __init__(self, node: Node, new_sender: NewSender = Sender) -> None:
        self._node = node
        self.new_sender = new_sender
        self._connections: set[Connection] = set()
        self._listeners: list[asyncio.Server] = []
        self._idle_check: asyncio.TimerHandle | None = None
        self._limits = ConnectionLimits()
        queued_bytes = node.config.queued_max_request_bytes
        self.request_memory = RequestMemory(queued_bytes) if queued_bytes > 0 else None

    async def listen(self, bound: Sequence[BoundListener]) -> None:
        for listener in bound:
            traffic = ListenerMetrics(self._node.metrics, listener.name)
            self._listeners.append(
                await self._node.loop.create_server(
                    partial(Connection, self, self._node, listener.name, traffic),
                    sock=listener.socket,
                    backlog=limits.LISTEN_BACKLOG,
                )
            )
        self._schedule_idle_check()

    def stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()

    def close(self) -> None:
        self.stop_listening()
        if self._idle_check is not None:
            self._idle_check.cancel()
        for connection in tuple(self._connections):
            connection.close()

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        reason = self._limits.opened(connection.host, self._node.config)
        if reason is not None:
            connection.close(reason)
            return
        quotas = self._node.quotas
        if quotas is not None:
            throttle_ms = quotas.connection_throttle_ms(connection.host)
            if throttle_ms:
                connection.close_later(throttle_ms, "its address opens connections too often")

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._limits.closed(connection.host)

    def _schedule_idle_check(self) -> None:
        idle_seconds = self._node.config.connections_max_idle_ms / 1000
        if idle_seconds < 0:
            return  # as in Kafka, connections stay open
        self._idle_check = self._node.loop.call_later(min(idle_seconds, 60.0) / 2, self._close_idle)

    def _close_idle(self) -> None:
        deadline = self._node.loop.time() - self._node.config.connections_max_idle_ms / 1000
        for connection in tuple(self._connections):
            if connection.last_active < deadline:
                connection.close()
        self._schedule_idle_check()
