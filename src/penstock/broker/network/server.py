"""Every listener of the broker, and the connections that came in by them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.metrics import ListenerMetrics
from penstock.broker.network.connection import Connection
from penstock.broker.network.connection_limits import ConnectionLimits
from penstock.broker.network.endpoints import BoundListener
from penstock.broker.network.request_memory import RequestMemory
from penstock.broker.network.sender import NewSender, Sender
from penstock.broker.node import Node
from penstock.core import limits
from penstock.protocol.framing import BufferPool

if TYPE_CHECKING:
    from penstock.broker.network.listener_gate import ListenerGate
    from penstock.broker.network.tls import ListenerTls
    from penstock.broker.network.token_keys import TokenKeys
    from penstock.metadata.listener_security import ListenerSecurity


class Server:
    """Closes connections above the limits of the broker, and those that were idle for `connections.max.idle.ms`.

    `new_sender` makes the way out of a connection; a simulation passes one that needs no socket.
    """

    def __init__(self, node: Node, new_sender: NewSender = Sender) -> None:
        self._node = node
        self.new_sender = new_sender
        self._connections: dict[Connection, None] = {}
        self._listeners: list[asyncio.Server] = []
        self._idle_check: asyncio.TimerHandle | None = None
        self._certificate_check: asyncio.TimerHandle | None = None
        self._session_check: asyncio.TimerHandle | None = None
        self._tls: list[ListenerTls] = []
        self._token_keys: list[TokenKeys] = []
        self._limits = ConnectionLimits()
        refused = ("penstock_connections_refused_total", "Connections above a limit or a rate.")
        self._refused_limit = node.metrics.counter(*refused, reason="limit")
        self._refused_rate = node.metrics.counter(*refused, reason="rate")
        queued_bytes = node.config.queued_max_request_bytes
        self.receive_buffers = BufferPool()
        self.request_memory = RequestMemory(queued_bytes) if queued_bytes > 0 else None

    async def listen(self, bound: Sequence[BoundListener]) -> None:
        for listener in bound:
            traffic = ListenerMetrics(self._node.metrics, listener.name)
            security = self._node.config.listener_security[listener.name]
            gate = self._gate(security, listener.token_keys)
            new_connection: Callable[[], Connection] = partial(self.new_connection, listener.name, traffic, gate)
            if listener.tls is not None:
                self._tls.append(listener.tls)
                new_connection = self._tls_connections(listener.name, traffic, gate, listener.tls)
            self._listeners.append(
                await self._node.loop.create_server(
                    new_connection,
                    sock=listener.socket,
                    backlog=limits.LISTEN_BACKLOG,
                )
            )
        self._schedule_idle_check()
        self._schedule_certificate_check()
        if self._node.is_clustered:
            self._check_session()

    def _tls_connections(
        self, listener_name: str, traffic: ListenerMetrics, gate: ListenerGate | None, tls: ListenerTls
    ) -> Callable[[], Connection]:
        # Imported here: a broker without TLS does not need it.
        from penstock.broker.network.tls_connection import HandshakeSlots, TlsConnection

        slots = HandshakeSlots(self._node.loop)
        ciphertext = memoryview(bytearray(limits.TLS_READ_BYTES))

        def new_connection() -> Connection:
            authentication = None if gate is None else gate.new_authentication()
            return TlsConnection(self, self._node, listener_name, traffic, authentication, tls, slots, ciphertext)

        return new_connection

    def _gate(self, security: ListenerSecurity, token_keys: TokenKeys | None) -> ListenerGate | None:
        if security.sasl is None:
            return None
        # Imported here: a broker without SASL does not need it.
        from penstock.broker.network.listener_gate import ListenerGate

        if token_keys is None:
            return ListenerGate(security.sasl, self._node)
        self._token_keys.append(token_keys)
        token_keys.watch(self._node.loop)
        return ListenerGate(security.sasl, self._node, token_keys.verifier)

    def new_connection(self, listener_name: str, traffic: ListenerMetrics, gate: ListenerGate | None) -> Connection:
        authentication = None if gate is None else gate.new_authentication()
        return Connection(self, self._node, listener_name, traffic, authentication)

    def stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()

    def close(self) -> None:
        self.stop_listening()
        if self._idle_check is not None:
            self._idle_check.cancel()
        if self._certificate_check is not None:
            self._certificate_check.cancel()
        if self._session_check is not None:
            self._session_check.cancel()
        for token_keys in self._token_keys:
            token_keys.close()
        for connection in tuple(self._connections):
            connection.close()

    def opened(self, connection: Connection) -> None:
        self._connections[connection] = None
        reason = self._limits.opened(connection.host, self._node.config)
        if reason is not None:
            self._refused_limit.value += 1
            connection.close(reason)
            return
        quotas = self._node.quotas
        if quotas is not None:
            throttle_ms = quotas.connection_throttle_ms(connection.host)
            if throttle_ms:
                self._refused_rate.value += 1
                connection.close_later(throttle_ms, "its address opens connections too often")

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._limits.closed(connection.host)

    def _schedule_idle_check(self) -> None:
        idle_seconds = self._node.config.connections_max_idle_ms / 1000
        if idle_seconds < 0:
            return  # as in Kafka, connections stay open
        self._idle_check = self._node.loop.call_later(min(idle_seconds, 60.0) / 2, self._close_idle)

    def _schedule_certificate_check(self) -> None:
        if self._tls:
            self._certificate_check = self._node.loop.call_later(limits.CERTIFICATE_CHECK_S, self._check_certificates)

    def _check_certificates(self) -> None:
        for tls in self._tls:
            tls.reload_if_changed()
        self._schedule_certificate_check()

    def _check_session(self) -> None:
        """Hangs up while this broker's session may have ended: clients would wait here for acknowledgements that do not
        come, and other brokers may lead by now."""
        if self._node.is_fenced:
            for connection in tuple(self._connections):
                connection.close()
        self._session_check = self._node.loop.call_later(limits.SESSION_CHECK_S, self._check_session)

    def _close_idle(self) -> None:
        deadline = self._node.loop.time() - self._node.config.connections_max_idle_ms / 1000
        for connection in tuple(self._connections):
            if connection.last_active < deadline:
                connection.close()
        self._schedule_idle_check()
