"""The SASL state of one connection: which mechanism was chosen, who the client is, and until when.

A state machine without I/O: `SaslHandshake` chooses a mechanism, `SaslAuthenticate` carries its messages, and every
request asks `check` first. Re-authentication (KIP-368) repeats both on the same connection and must end with the same
user. Must not know connections and requests; `sasl_server.py` has the mechanisms.

Invariant: until a user is authenticated, and after the session has expired, `check` lets ApiVersions, SaslHandshake and
SaslAuthenticate through and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from penstock.core.errors import ProtocolError
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.sasl_server import Authenticated, AuthenticationFailed, ServerExchange

API_VERSIONS_KEY: Final = 18
SASL_HANDSHAKE_KEY: Final = 17
SASL_AUTHENTICATE_KEY: Final = 36
_BEFORE_AUTHENTICATION: Final = frozenset({API_VERSIONS_KEY, SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY})


class UnauthenticatedRequest(ProtocolError):
    """A request that wants an authenticated client came from one that is not."""


class Progress(NamedTuple):
    """What SaslAuthenticate answers. `user` is None while the exchange goes on; a lifetime of 0 means no limit."""

    message: bytes
    user: str | None = None
    session_lifetime_ms: int = 0


class Authentication:
    """`mechanisms` makes the exchange of each mechanism that the listener offers. Times are in milliseconds."""

    def __init__(self, mechanisms: Mapping[str, Callable[[], ServerExchange]], max_reauth_ms: int) -> None:
        self._mechanisms = mechanisms
        self._max_reauth_ms = max_reauth_ms
        self._exchange: ServerExchange | None = None
        self._mechanism = ""  # of the exchange that is under way
        self._user: str | None = None
        self._user_mechanism = ""
        self._expires_ms: int | None = None  # on the monotonic clock
        self._failure: AuthenticationFailed | None = None  # that the client has been told and has not acknowledged

    @property
    def mechanisms(self) -> list[str]:
        return list(self._mechanisms)

    @property
    def user(self) -> str | None:
        return self._user

    @property
    def is_settled(self) -> bool:
        """Whether `check` will let every request through from now on."""
        return self._user is not None and self._expires_ms is None and self._exchange is None

    def check(self, api_key: int, name: str, monotonic_ms: int) -> None:
        """Raises ProtocolError for a request that may not come now, UnauthenticatedRequest for one of a stranger."""
        if api_key in _BEFORE_AUTHENTICATION:
            return
        if self._failure is not None:
            # Some clients take every answer without an error code for a success.
            raise UnauthenticatedRequest(f"{name} after a failed authentication: {self._failure}")
        if self._user is None:
            raise UnauthenticatedRequest(f"{name} before authentication")
        if self._exchange is not None:
            raise ProtocolError(f"{name} during re-authentication")
        if self._expires_ms is not None and monotonic_ms >= self._expires_ms:
            raise ProtocolError(f"{name} after the session expired; the client must authenticate again")

    def handshake(self, mechanism: str) -> None:
        """Raises BrokerError: the client is told its code, and the connection ends."""
        # A session without an end needs no re-authentication.
        if self._exchange is not None or (self._user is not None and self._expires_ms is None):
            raise BrokerError(ErrorCode.ILLEGAL_SASL_STATE)
        make = self._mechanisms.get(mechanism)
        if make is None:
            raise BrokerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if self._user is not None and mechanism != self._user_mechanism:
            raise BrokerError(
                ErrorCode.SASL_AUTHENTICATION_FAILED, "The mechanism cannot be changed by re-authentication."
            )
        self._exchange = make()
        self._mechanism = mechanism

    def authenticate(self, message: bytes, now_ms: int, monotonic_ms: int) -> Progress:
        """Raises BrokerError(ILLEGAL_SASL_STATE) without a handshake, and AuthenticationFailed."""
        if self._exchange is None:
            raise BrokerError(ErrorCode.ILLEGAL_SASL_STATE)
        answer = self._exchange.step(message, now_ms)
        if not isinstance(answer, Authenticated):
            self._failure = answer.failure
            return Progress(answer.message)
        if self._user is not None and answer.user != self._user:
            raise AuthenticationFailed("the user cannot be changed by re-authentication")
        lifetime_ms = self._lifetime_ms(answer.expires_ms, now_ms)
        self._user, self._user_mechanism = answer.user, self._mechanism
        self._expires_ms = None if lifetime_ms is None else monotonic_ms + lifetime_ms
        self._exchange = None
        return Progress(answer.message, answer.user, lifetime_ms or 0)

    def _lifetime_ms(self, credential_expires_ms: int | None, now_ms: int) -> int | None:
        """The shorter of what the listener allows and what the credential has left."""
        limits = [self._max_reauth_ms] if self._max_reauth_ms > 0 else []
        if credential_expires_ms is not None:
            left_ms = credential_expires_ms - now_ms
            if left_ms <= 0:
                raise AuthenticationFailed("the credential has expired")
            limits.append(left_ms)
        return min(limits, default=None)
