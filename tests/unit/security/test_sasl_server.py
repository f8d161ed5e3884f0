"""The broker's side of SASL: RFC examples, our own client against it, and bad messages."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest

from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.security.sasl import UntrustedBroker, client_messages
from penstock.security.sasl_server import (
    MESSAGE_BYTES_MAX,
    Authenticated,
    AuthenticationFailed,
    Challenge,
    OAuthBearerExchange,
    PlainExchange,
    ScramExchange,
    ServerExchange,
    ValidToken,
    scram_credential,
)

NOW_MS = 1_000_000
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PENCIL = scram_credential(SHA_256, SALT, 4096, "pencil")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def scram(users: Mapping[str, ScramCredential], mechanism: ScramMechanism = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, users.get, SERVER_NONCE, b"decoy")


def converse(mechanism: str, user: str, password: str, server: ServerExchange) -> Authenticated:
    """Our own client against the broker's side."""
    client = client_messages(mechanism, user, password, "client-nonce")
    message = next(client)
    while True:
        answer = server.step(message, NOW_MS)
        try:
            message = client.send(answer.message)
        except StopIteration:
            assert isinstance(answer, Authenticated)
            return answer


def test_scram_matches_the_example_of_rfc_7677() -> None:
    exchange = scram({"user": PENCIL})
    assert exchange.step(CLIENT_FIRST, NOW_MS) == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.step(CLIENT_FINAL, NOW_MS) == Authenticated(
        "user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512], ids=str)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "ülrike"])
def test_scram_with_our_own_client(mechanism: ScramMechanism, user: str) -> None:
    users = {user: scram_credential(mechanism, b"salt", 4096, "sécret,=")}
    assert converse(str(mechanism), user, "sécret,=", scram(users, mechanism)).user == user
    with pytest.raises(AuthenticationFailed):
        converse(str(mechanism), user, "wrong", scram(users, mechanism))


def test_an_unknown_scram_user_looks_like_a_wrong_password() -> None:
    unknown, again = scram({}), scram({})
    challenge = unknown.step(CLIENT_FIRST, NOW_MS)
    assert isinstance(challenge, Challenge)
    assert challenge == again.step(CLIENT_FIRST, NOW_MS), "asking twice does not tell"
    assert b"i=4096" in challenge.message
    with pytest.raises(AuthenticationFailed) as absent:
        converse("SCRAM-SHA-256", "user", "pencil", scram({}))
    with pytest.raises(AuthenticationFailed) as wrong:
        converse("SCRAM-SHA-256", "user", "pen", scram({"user": PENCIL}))
    assert str(absent.value) == str(wrong.value)


def test_the_client_notices_a_broker_with_another_password() -> None:
    forged = ScramCredential(SHA_256, 4096, SALT, PENCIL.stored_key, server_key=b"x" * 32)
    with pytest.raises(UntrustedBroker):
        converse("SCRAM-SHA-256", "user", "pencil", scram({"user": forged}))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"p=tls-unique,,n=user,r=nonce",
        b"n,,m=ext,n=user,r=nonce",
        b"n,,n=,r=nonce",
        b"n,,n=us=er,r=nonce",
        b"n,,n=user,r=",
        b"n,,n=user",
        b"n,a=other,n=user,r=nonce",
        b"n,,n=user,r=no nce",
        b"n,,n=user,r=nonce" + b"x" * MESSAGE_BYTES_MAX,
    ],
)
def test_scram_first_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        scram({"user": PENCIL}).step(message, NOW_MS)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL.replace(b"r=rOpr", b"r=xOpr"),
        CLIENT_FINAL.replace(b",p=dH", b",p=eH"),
        CLIENT_FINAL.replace(b"p=dHzb", b"p="),
        CLIENT_FINAL.partition(b",p=")[0],
        CLIENT_FINAL.partition(b",p=")[0] + b",p=====",
        CLIENT_FIRST,
    ],
)
def test_scram_final_messages_that_are_refused(message: bytes) -> None:
    exchange = scram({"user": PENCIL})
    exchange.step(CLIENT_FIRST, NOW_MS)
    with pytest.raises(AuthenticationFailed) as refused:
        exchange.step(message, NOW_MS)
    assert "pencil" not in str(refused.value)


def test_the_authorization_id_may_repeat_the_user() -> None:
    assert isinstance(scram({"user": PENCIL}).step(b"n,a=user,n=user,r=nonce", NOW_MS), Challenge)


def test_a_credential_shows_no_key() -> None:
    assert repr(PENCIL) == "ScramCredential(mechanism=<ScramMechanism.SCRAM_SHA_256: 1>, iterations=4096)"


def test_plain() -> None:
    users = {"alice": "pässword"}
    assert converse("PLAIN", "alice", "pässword", PlainExchange(users)) == Authenticated("alice", b"")
    for user, password in (("alice", "wrong"), ("bob", "pässword"), ("bob", "\x00"), ("", "x"), ("alice", "")):
        with pytest.raises(AuthenticationFailed) as refused:
            converse("PLAIN", user, password, PlainExchange(users))
        assert "pässword" not in str(refused.value)


@pytest.mark.parametrize("message", [b"", b"alice", b"\0alice", b"bob\0alice\0p", b"\0alice\0p\0", b"\xff\0alice\0p"])
def test_plain_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        PlainExchange({"alice": "p"}).step(message, NOW_MS)


def verify(token: str, now_ms: int) -> ValidToken:
    if token != "good.token":
        raise AuthenticationFailed("OAUTHBEARER: bad token")
    return ValidToken("alice", now_ms + 5000)


def test_a_good_token() -> None:
    outcome = converse("OAUTHBEARER", "", "good.token", OAuthBearerExchange(verify))
    assert outcome == Authenticated("alice", b"", NOW_MS + 5000)
    with_extensions = b"n,a=alice,\x01auth=Bearer good.token\x01traceId=1\x01\x01"
    assert isinstance(OAuthBearerExchange(verify).step(with_extensions, NOW_MS), Authenticated)


def test_a_bad_token_is_explained_and_then_fails() -> None:
    exchange = OAuthBearerExchange(verify)
    client = client_messages("OAUTHBEARER", "", "bad", "")
    challenge = exchange.step(next(client), NOW_MS)
    assert isinstance(challenge, Challenge)
    assert challenge.message == b'{"status": "invalid_token"}'
    with pytest.raises(AuthenticationFailed) as failed:
        exchange.step(client.send(challenge.message), NOW_MS)
    assert failed.value is challenge.failure


@pytest.mark.parametrize(
    "message", [b"", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"y,,\x01auth=Bearer good.token\x01\x01"]
)
def test_bearer_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        OAuthBearerExchange(verify).step(message, NOW_MS)


def test_a_token_for_another_authorization_id_is_refused() -> None:
    exchange = OAuthBearerExchange(verify)
    assert isinstance(exchange.step(b"n,a=bob,\x01auth=Bearer good.token\x01\x01", NOW_MS), Challenge)
    with pytest.raises(AuthenticationFailed):
        exchange.step(b"\x01", NOW_MS)
