"""The SASL state of a connection."""

from __future__ import annotations

import pytest

from penstock.core.errors import ProtocolError
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.authentication import (
    API_VERSIONS_KEY,
    SASL_AUTHENTICATE_KEY,
    SASL_HANDSHAKE_KEY,
    Authentication,
    Progress,
)
from penstock.security.sasl_server import AuthenticationFailed, OAuthBearerExchange, PlainExchange, ValidToken

METADATA_KEY = 3
ALICE, BOB = b"\0alice\0secret", b"\0bob\0secret"
NOW_MS = 1_000_000


def verified(token: str, now_ms: int) -> ValidToken:
    return ValidToken("alice", int(token))


def authentication(max_reauth_ms: int = 0) -> Authentication:
    return Authentication(
        {
            "PLAIN": lambda: PlainExchange({"alice": "secret", "bob": "secret"}),
            "OAUTHBEARER": lambda: OAuthBearerExchange(verified),
        },
        max_reauth_ms,
    )


def log_in(state: Authentication, message: bytes = ALICE, monotonic_ms: int = 0) -> Progress:
    state.handshake("PLAIN")
    return state.authenticate(message, NOW_MS, monotonic_ms)


def serves(state: Authentication, monotonic_ms: int = 0) -> bool:
    for api_key in (API_VERSIONS_KEY, SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY):
        state.check(api_key, "always", monotonic_ms)
    try:
        state.check(METADATA_KEY, "Metadata", monotonic_ms)
    except ProtocolError:
        return False
    return True


def test_nothing_is_served_before_the_end_of_the_exchange() -> None:
    state = authentication()
    assert not serves(state)
    state.handshake("PLAIN")
    assert not serves(state)
    assert state.authenticate(ALICE, NOW_MS, 0) == Progress(b"", "alice", 0)
    assert serves(state)
    assert state.is_settled


def test_a_failed_exchange_serves_nothing() -> None:
    state = authentication()
    with pytest.raises(AuthenticationFailed):
        log_in(state, b"\0alice\0wrong")
    assert not serves(state)
    assert state.user is None


def test_a_client_that_takes_a_refused_token_for_a_success_is_told_apart() -> None:
    """The refusal has no error code (RFC 7628), so some clients go on with requests."""

    def refused(token: str, now_ms: int) -> ValidToken:
        raise AuthenticationFailed("OAUTHBEARER: the token has expired")

    state = Authentication({"OAUTHBEARER": lambda: OAuthBearerExchange(refused)}, 0)
    state.handshake("OAUTHBEARER")
    assert state.authenticate(b"n,,\x01auth=Bearer token\x01\x01", NOW_MS, 0).user is None
    with pytest.raises(
        ProtocolError, match="Metadata after a failed authentication: OAUTHBEARER: the token has expired"
    ):
        state.check(METADATA_KEY, "Metadata", 0)
    assert not serves(state)
    with pytest.raises(AuthenticationFailed):
        state.authenticate(b"\x01", NOW_MS, 0)


def test_steps_out_of_order_are_refused() -> None:
    state = authentication()
    with pytest.raises(BrokerError) as refused:
        state.authenticate(ALICE, NOW_MS, 0)
    assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE
    state.handshake("PLAIN")
    with pytest.raises(BrokerError) as refused:
        state.handshake("PLAIN")
    assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(BrokerError) as refused:
        authentication().handshake("GSSAPI")
    assert refused.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_a_session_without_an_end_is_not_renewed() -> None:
    state = authentication()
    log_in(state)
    with pytest.raises(BrokerError) as refused:
        state.handshake("PLAIN")
    assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE
    assert serves(state)


def test_a_session_ends_and_can_be_renewed() -> None:
    state = authentication(max_reauth_ms=5000)
    assert log_in(state, monotonic_ms=100).session_lifetime_ms == 5000
    assert serves(state, 5099)
    assert not serves(state, 5100)
    state.handshake("PLAIN")
    assert not serves(state, 200), "in the middle of an exchange"
    state.authenticate(ALICE, NOW_MS, 6000)
    assert serves(state, 10_999)
    assert not serves(state, 11_000)
    assert not state.is_settled


def test_neither_the_user_nor_the_mechanism_can_be_changed() -> None:
    state = authentication(max_reauth_ms=5000)
    log_in(state)
    with pytest.raises(BrokerError) as refused:
        state.handshake("OAUTHBEARER")
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(AuthenticationFailed):
        log_in(state, BOB)
    assert state.user == "alice"
    assert not serves(state)


@pytest.mark.parametrize(
    ("token_left_ms", "max_reauth_ms", "lifetime_ms"), [(3000, 0, 3000), (3000, 5000, 3000), (9000, 5000, 5000)]
)
def test_a_token_limits_the_session(token_left_ms: int, max_reauth_ms: int, lifetime_ms: int) -> None:
    state = authentication(max_reauth_ms)
    state.handshake("OAUTHBEARER")
    token = str(NOW_MS + token_left_ms).encode()
    progress = state.authenticate(b"n,,\x01auth=Bearer " + token + b"\x01\x01", NOW_MS, 0)
    assert progress.session_lifetime_ms == lifetime_ms


def test_a_token_that_expired_on_its_way() -> None:
    state = authentication()
    state.handshake("OAUTHBEARER")
    with pytest.raises(AuthenticationFailed):
        state.authenticate(b"n,,\x01auth=Bearer " + str(NOW_MS).encode() + b"\x01\x01", NOW_MS, 0)
