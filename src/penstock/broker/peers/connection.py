"""One connection to another broker on the event loop: bytes between a transport and `protocol/exchange.py`.

Owns the transport and the answers that are waited for. Must not know which broker it is connected to, what a request is
for, or when to connect again (`channel.py`).

Invariant: after `lost` nothing is in flight; every waiting request has failed.
Invariant: a request whose caller has gone away still takes its response out of the order, and drops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast

from penstock.core.errors import ProtocolError
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.exchange import Exchange, InFlightRequest, ReceiveBuffer, Step
from penstock.protocol.schema import Message

T = TypeVar("T")


class PeerConnection(asyncio.BufferedProtocol):
    """`peer` names the other broker in messages; `on_lost` is called once, with the reason."""

    def __init__(self, peer: str, client_id: str, on_lost: Callable[[PeerConnection, str], None]) -> None:
        self._peer = peer
        self._exchange = Exchange(peer, client_id)
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[InFlightRequest]] = {}  # by correlation id
        self._lost_because: str | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def in_flight(self) -> int:
        return self._exchange.in_flight

    def version_for(self, request: type[Message], *, at_least: int = 0, at_most: int | None = None) -> int:
        return self._exchange.version_for(request, at_least=at_least, at_most=at_most)

    async def ask(self, request: Message, version: int, into: ReceiveBuffer | None = None) -> Any:
        """The response. Raises NETWORK_EXCEPTION when the connection is lost before it has arrived."""
        transport = self._transport
        if transport is None:
            raise self._failure()
        sent, chunks = self._exchange.send(request, version, into=into)
        answered: asyncio.Future[InFlightRequest] = asyncio.get_running_loop().create_future()
        self._waiting[sent.correlation_id] = answered
        transport.writelines(chunks)
        return self._decoded(await answered)

    async def carry_out(self, steps: Generator[Step, Any, T]) -> T:
        """The steps of the connection setup: versions, SASL."""
        try:
            step = next(steps)
            while True:
                step = steps.send(await self.ask(step.request, step.version))
        except StopIteration as end:
            return cast("T", end.value)

    def negotiate_versions(self, software_version: str) -> Generator[Step, Any, None]:
        return self._exchange.negotiate_versions("penstock", software_version)

    def authenticate(self, mechanism: str, messages: Generator[bytes, bytes, None]) -> Generator[Step, Any, int]:
        return self._exchange.authenticate(mechanism, messages)

    def close(self, reason: str) -> None:
        """Everything that is waited for fails with this reason."""
        transport = self._transport
        self._lose(reason)
        if transport is not None:
            transport.abort()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._exchange.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._transport is None:
            return  # closed while these bytes were on their way
        try:
            answered = self._exchange.advance(nbytes)
        except ProtocolError as error:
            self.close(str(error))
            return
        if answered is None:
            return
        waiting = self._waiting.pop(answered.correlation_id)
        if not waiting.done():
            waiting.set_result(answered)

    def eof_received(self) -> bool:
        return False  # the transport closes itself

    def connection_lost(self, error: Exception | None) -> None:
        reason = "it closed the connection"
        if error is not None:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        if self._lost_because is not None:
            return
        self._lost_because = reason
        self._transport = None
        waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            if not answered.done():
                answered.set_exception(self._failure())
        self._on_lost(self, reason)

    def _failure(self) -> BrokerError:
        return BrokerError(ErrorCode.NETWORK_EXCEPTION, f"{self._peer} did not answer: {self._lost_because}.")

    def _decoded(self, answered: InFlightRequest) -> Any:
        try:
            return answered.decode()
        except ProtocolError as error:
            self.close(str(error))
            raise self._failure() from error
