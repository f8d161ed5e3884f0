"""One connection of the fuzzer: sends a burst, and checks what came of it before the next one.

A connection that the broker closed, as it must after most spoiled frames, is opened again. A connection of a user
authenticates first. One of a stranger never does, and may learn nothing but how it could.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.definitions.sasl_handshake import SaslHandshakeRequest
from tests.robustness.fuzz_bursts import SENTINEL_CORRELATION_ID, Burst, Frame, Outcome
from tests.wire_client import ConnectionClosed, WireClient, encode_request, framed

ANSWER_TIMEOUT_S: Final = 30.0
USER: Final = "fuzzer"
BEFORE_AUTHENTICATION: Final = frozenset({17, 18, 36})  # SaslHandshake, ApiVersions, SaslAuthenticate
_SENTINEL: Final = framed(encode_request(ApiVersionsRequest(), 0, SENTINEL_CORRELATION_ID))
# A close that leaves no TIME_WAIT behind: hundreds of thousands of them would use up the ports.
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class BurstFailure(Exception):
    """A burst's frames did not become what they must; names the burst for --replay."""

    def __init__(self, burst: Burst, what: str, frame: Frame | None = None) -> None:
        shown = f"; frame {frame.content[:200].hex()}" if frame is not None else ""
        super().__init__(f"burst {burst.number} (--replay {burst.number}): {what}{shown}")


class FuzzedConnection:
    """`begin` a burst, `finish` it, and so on."""

    def __init__(self, bootstrap_servers: str, password: str | None = None) -> None:
        """With a password, the connection authenticates as USER."""
        self._bootstrap_servers = bootstrap_servers
        self._password = password
        self._client: WireClient | None = None
        self._burst: Burst | None = None

    def begin(self, burst: Burst) -> None:
        if self._client is None:
            self._client = _opened(self._bootstrap_servers)
            if self._password is not None:
                _authenticate(self._client, self._password)
        self._burst = burst
        last = burst.last
        wants_sentinel = last is None or last.outcome is Outcome.SILENT
        try:
            self._client.send_raw(burst.bytes + (_SENTINEL if wants_sentinel else b""))
            if last is not None and last.outcome in (Outcome.PARKED, Outcome.UNFINISHED):
                self._client.socket.shutdown(socket.SHUT_WR)
        except (ConnectionClosed, OSError):
            # The broker may hang up before it has read all; what it said before that is still there to be read.
            if wants_sentinel and last is None:
                raise BurstFailure(burst, "the connection was closed while the burst was sent") from None

    def finish(self) -> None:
        burst, self._burst = self._burst, None
        if burst is None:
            return
        assert self._client is not None
        try:
            self._check(burst, self._client)
        except TimeoutError:
            raise BurstFailure(burst, f"nothing came within {ANSWER_TIMEOUT_S:g} s", burst.last) from None
        if burst.last is not None:
            self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _check(self, burst: Burst, client: WireClient) -> None:
        certain = burst.certain_answers
        for index, frame in enumerate(burst.answered):
            try:
                client.receive(frame.api_key, frame.version, frame.correlation_id)
            except ConnectionClosed:
                if index >= certain:
                    return
                raise BurstFailure(burst, f"answer {index} did not come, the connection was closed", frame) from None
            except TimeoutError:
                raise
            except Exception as error:
                raise BurstFailure(burst, f"answer {index} is not the right one: {error!r}", frame) from error
        last = burst.last
        if last is None or last.outcome is Outcome.SILENT:
            try:
                client.receive(18, 0, SENTINEL_CORRELATION_ID)
            except ConnectionClosed:
                if last is None:
                    raise BurstFailure(burst, "the connection was closed behind the last answer") from None
        elif last.outcome is Outcome.PARKED:
            _drain(client)
        elif not client.is_closed_by_peer():
            raise BurstFailure(burst, "the connection was not closed", last)


class StrangersConnection:
    """Sends bursts without having authenticated. The broker answers what leads to that, and hangs up."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._client: WireClient | None = None
        self._burst: Burst | None = None

    def begin(self, burst: Burst) -> None:
        self._client = _opened(self._bootstrap_servers)
        self._burst = burst
        try:
            self._client.send_raw(burst.bytes)
            self._client.socket.shutdown(socket.SHUT_WR)
        except (ConnectionClosed, OSError):
            pass  # The broker may hang up before it has read all.

    def finish(self) -> None:
        burst, self._burst = self._burst, None
        if burst is None:
            return
        assert self._client is not None
        told = bytearray()
        try:
            while content := self._client.socket.recv(1 << 16):
                told += content
        except ConnectionError:
            pass
        except TimeoutError:
            raise BurstFailure(burst, f"the connection was open {ANSWER_TIMEOUT_S:g} s later", burst.last) from None
        allowed = {frame.correlation_id for frame in burst.frames if frame.api_key in BEFORE_AUTHENTICATION}
        for correlation_id in _answered_ids(told):
            if correlation_id not in allowed:
                raise BurstFailure(burst, f"a stranger was answered under {correlation_id}")
        self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _opened(bootstrap_servers: str) -> WireClient:
    client = WireClient(bootstrap_servers, timeout_s=ANSWER_TIMEOUT_S)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    return client


def _authenticate(client: WireClient, password: str) -> None:
    offered = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert offered.error_code == 0, offered
    proof = f"\0{USER}\0{password}".encode()
    accepted = client.ask(SaslAuthenticateRequest(auth_bytes=proof), 2)
    assert accepted.error_code == 0, accepted


def _answered_ids(told: bytearray) -> list[int]:
    """The correlation ids of whole and cut off answers."""
    ids: list[int] = []
    position = 0
    while position + 8 <= len(told):
        size, correlation_id = struct.unpack_from(">ii", told, position)
        ids.append(correlation_id)
        position += 4 + size
    return ids


def _drain(client: WireClient) -> None:
    """Up to the end of the connection: a parked fetch may have been answered, or not."""
    try:
        while client.socket.recv(1 << 16):
            pass
    except ConnectionError:
        return
