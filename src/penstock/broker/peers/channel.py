"""The way to one other broker: requests and responses over a connection that is opened when it is needed.

Responses arrive in the order of their requests, so that a request which the other broker lets wait holds back those
behind it. Requests of different kinds therefore take different lanes: a lane is a channel with a connection of its own.

Failures are all the same to a caller: NETWORK_EXCEPTION says that the request may or may not have been carried out.
After a failed attempt to connect the channel waits before the next one, longer each time.

Invariant: a request ends within its timeout. A connection on which one took longer is closed, because the responses
behind it would wait for it too.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final

from penstock.broker.peers.connection import PeerConnection
from penstock.core import limits
from penstock.core.addresses import host_port_text
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.sasl import client_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.peers.credentials import PeerCredentials
    from penstock.core.ids import BrokerId
    from penstock.metadata.changes import Endpoint
    from penstock.protocol.exchange import ReceiveBuffer
    from penstock.protocol.schema import Message

logger = logging.getLogger(__name__)

# As reconnect.backoff.ms and reconnect.backoff.max.ms of Kafka's clients.
_BACKOFF_S: Final = 0.05
_BACKOFF_S_MAX: Final = 1.0
# The other broker ends a SASL session at its lifetime; a new connection replaces this one before that.
_SASL_LIFETIME_USED: Final = 0.85


class PeerChannel:
    """Belongs to the event loop. `endpoint` gives the broker's present address; None while it is not registered."""

    def __init__(
        self,
        broker_id: BrokerId,
        endpoint: Callable[[], Endpoint | None],
        credentials: PeerCredentials,
        client_id: str,
        software_version: str,
    ) -> None:
        self.broker_id = broker_id
        self._endpoint = endpoint
        self._credentials = credentials
        self._client_id = client_id
        self._software_version = software_version
        self._connection: PeerConnection | None = None
        self._connected_to: Endpoint | None = None
        self._expires_s = float("inf")
        self._connecting = asyncio.Lock()
        self._slots = asyncio.Semaphore(limits.PEER_REQUESTS_IN_FLIGHT_MAX)
        self._failures = 0
        self._next_attempt_s = 0.0
        self._is_closed = False

    def __str__(self) -> str:
        return f"broker {self.broker_id}"

    async def request(
        self,
        message: Message,
        *,
        timeout_s: float,
        at_least: int = 0,
        at_most: int | None = None,
        into: ReceiveBuffer | None = None,
    ) -> Any:
        """The response, in the newest version that both brokers know (within `at_least` and `at_most`).

        Raises BrokerError: NETWORK_EXCEPTION if there is no response in time, UNSUPPORTED_VERSION if there can be none.
        """
        connection = None
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                connection = await self._connected()
                version = connection.version_for(type(message), at_least=at_least, at_most=at_most)
                return await connection.ask(message, version, into)
        except TimeoutError:
            reason = f"no response to {type(message).__name__} within {timeout_s:g} s"
            if connection is not None:
                connection.close(reason)
            raise self._unreachable(reason) from None

    def retry_now(self) -> None:
        """The next request connects without waiting."""
        self._failures = 0
        self._next_attempt_s = 0.0

    def disconnect(self, reason: str) -> None:
        """What is in flight fails now."""
        self.retry_now()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(reason)

    def close(self) -> None:
        self._is_closed = True
        self.disconnect("this broker stops")

    async def _connected(self) -> PeerConnection:
        loop = asyncio.get_running_loop()
        async with self._connecting:
            endpoint = self._endpoint()
            if endpoint is None or self._is_closed:
                raise self._unreachable("it is not registered" if endpoint is None else "this broker stops")
            connection = self._connection
            if connection is not None and connection.is_open:
                expired = loop.time() >= self._expires_s and not connection.in_flight
                if endpoint == self._connected_to and not expired:
                    return connection
                connection.close("it has another address" if not expired else "its SASL session ends")
            await asyncio.sleep(max(0.0, self._next_attempt_s - loop.time()))
            return await self._connect(endpoint)

    async def _connect(self, endpoint: Endpoint) -> PeerConnection:
        address = host_port_text(endpoint.host, endpoint.port)
        tls = self._credentials.tls
        opened: PeerConnection | None = None
        try:
            async with asyncio.timeout(limits.PEER_CONNECTION_SETUP_S):
                _, opened = await asyncio.get_running_loop().create_connection(
                    lambda: PeerConnection(f"{self} at {address}", self._client_id, self._lost),
                    endpoint.host,
                    endpoint.port,
                    ssl=tls,
                    server_hostname=endpoint.host if tls is not None else None,
                )
                await opened.carry_out(opened.negotiate_versions(self._software_version))
                await self._log_in(opened)
        except BaseException as error:
            if opened is not None:
                opened.close("the connection was not completed")
            if not isinstance(error, OSError | BrokerError):  # a TimeoutError is an OSError
                raise
            raise self._attempt_failed(address, error) from error
        if self._failures:
            logger.info("%s at %s is reached again", self, address)
        self._failures = 0
        self._connection, self._connected_to = opened, endpoint
        return opened

    async def _log_in(self, connection: PeerConnection) -> None:
        self._expires_s = float("inf")
        sasl = self._credentials.sasl
        if sasl is None:
            return
        started_s = asyncio.get_running_loop().time()
        messages = client_messages(sasl.mechanism, sasl.username, sasl.password, nonce=secrets.token_urlsafe(24))
        lifetime_ms = await connection.carry_out(connection.authenticate(sasl.mechanism, messages))
        if lifetime_ms > 0:
            self._expires_s = started_s + lifetime_ms / 1000 * _SASL_LIFETIME_USED

    def _attempt_failed(self, address: str, error: OSError | BrokerError) -> BrokerError:
        reason = _reason(error)
        if not self._failures:
            logger.warning("%s at %s cannot be reached: %s", self, address, reason)
        wait_s = min(_BACKOFF_S * 2**self._failures, _BACKOFF_S_MAX)
        self._failures = min(self._failures + 1, 16)
        self._next_attempt_s = asyncio.get_running_loop().time() + wait_s
        return self._unreachable(reason)

    def _lost(self, connection: PeerConnection, reason: str) -> None:
        if connection is self._connection:
            self._connection = None
            logger.info("the connection to %s was lost: %s", self, reason)

    def _unreachable(self, reason: str) -> BrokerError:
        return BrokerError(ErrorCode.NETWORK_EXCEPTION, f"{self} cannot be reached: {reason}.")


def _reason(error: OSError | BrokerError) -> str:
    if isinstance(error, BrokerError):
        return error.message.removesuffix(".")
    return error.strerror or str(error) or ("it does not answer" if isinstance(error, TimeoutError) else repr(error))
