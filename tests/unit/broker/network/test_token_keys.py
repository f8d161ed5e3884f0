"""Key sets from files and URLs, with real signatures and a real HTTP server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.network import token_keys
from penstock.broker.network.token_keys import KeySetError, TokenKeys
from penstock.core import limits
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.listener_security import OAuthSettings
from penstock.security.sasl_server import AuthenticationFailed
from tests.token_issuer import TokenIssuer, identity_provider, key_set

FIRST = TokenIssuer("first")
SECOND = TokenIssuer("second", number=1)


def settings(url: str, **more: str) -> OAuthSettings:
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "1",
        **{f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in more.items()},
    }
    config = BrokerConfig.load(properties_text="\n".join(f"{name}={value}" for name, value in properties.items()))
    sasl = config.listener_security["SASL_PLAINTEXT"].sasl
    assert sasl is not None
    assert sasl.oauth is not None
    return sasl.oauth


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys of the broker.json"
    file.write_text(key_set(FIRST))
    return file


def user_of(keys: TokenKeys, token: str) -> str:
    return keys.verifier.verify(token, int(time.time() * 1000)).user


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"])
def test_every_algorithm(tmp_path: Path, algorithm: str) -> None:
    issuer, impostor = TokenIssuer("k", algorithm), TokenIssuer("k", algorithm, number=1)
    file = tmp_path / "keys.json"
    file.write_text(key_set(issuer))
    keys = TokenKeys(settings(file.as_uri()))
    assert user_of(keys, issuer.token("bob")) == "bob"
    with pytest.raises(AuthenticationFailed, match="signature is not valid"):
        user_of(keys, impostor.token("bob"))


def forged(header: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """A token that no library would make."""

    def part(content: bytes) -> str:
        return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

    claims = {"sub": "admin", "exp": int(time.time()) + 600, "iss": "https://issuer", "aud": "kafka"}
    signed = f"{part(json.dumps(header).encode())}.{part(json.dumps(claims).encode())}"
    return f"{signed}.{part(sign(signed.encode()))}"


def test_tokens_that_are_refused(key_file: Path) -> None:
    keys = TokenKeys(settings(key_file.as_uri()))
    pem = FIRST.public_pem()
    refused = {
        forged({"alg": "none", "kid": "first"}, lambda _: b""): "algorithm is not accepted",
        # The public key as the secret of an HMAC: what a library does that trusts the header.
        forged(
            {"alg": "HS256", "kid": "first"}, lambda signed: hmac.digest(pem, signed, hashlib.sha256)
        ): "algorithm is not accepted",
        forged({"alg": "RS256", "kid": "first"}, lambda _: b""): "signature is not valid",
        FIRST.token(lifetime_s=-31): "has expired",
        FIRST.token(nbf=time.time() + 60): "not valid yet",
        FIRST.token(aud="other"): "another audience",
        FIRST.token(iss="https://other"): "another issuer",
        FIRST.token(sub=None): "no sub",
        FIRST.token(exp=None): "no exp",
        SECOND.token(): "no such key",
    }
    for token, reason in refused.items():
        with pytest.raises(AuthenticationFailed, match=reason) as failure:
            user_of(keys, token)
        assert token not in str(failure.value)


def test_names_of_claims_and_the_clock_are_settings(key_file: Path) -> None:
    keys = TokenKeys(
        settings(key_file.as_uri(), sub_claim_name="client_id", scope_claim_name="scp", clock_skew_seconds="90")
    )
    assert user_of(keys, FIRST.token(client_id="service-7", lifetime_s=-80)) == "service-7"
    with pytest.raises(AuthenticationFailed, match="no client_id"):
        user_of(keys, FIRST.token())
    with pytest.raises(AuthenticationFailed, match="scp is not text"):
        user_of(keys, FIRST.token(client_id="service-7", scp=7))


def test_a_private_key_in_the_set_is_used_for_its_public_part_only(key_file: Path) -> None:
    content = json.loads(key_file.read_text())
    content["keys"][0]["d"] = "AQAB"
    key_file.write_text(json.dumps(content))
    assert user_of(TokenKeys(settings(key_file.as_uri())), FIRST.token()) == "alice"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<html>", "not JSON; expected a JSON Web Key Set"),
        ('{"keys": []}', "no RSA or EC key"),
        (json.dumps({"keys": [FIRST.key() | {"n": "!!"}]}), "the RSA key 'first' cannot be used: its numbers"),
        (json.dumps({"keys": [FIRST.key() | {"n": "AQAB"}]}), "the RSA key 'first' cannot be used"),
        (
            json.dumps({"keys": [TokenIssuer("e", "ES256").key() | {"x": "AAAA"}]}),
            "the EC key 'e' cannot be used: its numbers are malformed",
        ),
        ("x" * (limits.KEY_SET_BYTES_MAX + 1), "more than 1048576 bytes"),
    ],
)
def test_a_key_set_that_cannot_be_used_is_one_line(key_file: Path, content: str, reason: str) -> None:
    key_file.write_text(content)
    with pytest.raises(KeySetError, match=reason) as refused:
        TokenKeys(settings(key_file.as_uri()))
    assert str(refused.value).startswith("sasl.oauthbearer.jwks.endpoint.url: file:///")
    assert "\n" not in str(refused.value)


def test_a_short_rsa_key_is_refused(key_file: Path) -> None:
    short = base64.urlsafe_b64encode(((1 << 1023) + 1).to_bytes(128, "big")).rstrip(b"=").decode()
    key_file.write_text(json.dumps({"keys": [FIRST.key() | {"n": short}]}))
    with pytest.raises(KeySetError, match="1024 bits; at least 2048 are required"):
        TokenKeys(settings(key_file.as_uri()))


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(KeySetError, match="No such file or directory; check the address"):
        TokenKeys(settings((tmp_path / "none.json").as_uri()))


def test_without_the_library_the_line_says_what_to_install(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "penstock.broker.network.token_signatures", None)
    with pytest.raises(KeySetError, match=r"pip install 'penstock\[oauth\]'"):
        TokenKeys(settings(key_file.as_uri()))


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(12_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("nothing happened")


def test_a_changed_file_is_loaded_again_and_a_bad_one_is_not(
    key_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "CERTIFICATE_CHECK_S", 0.01)

    def replace(content: str) -> None:
        key_file.write_text(content)

    async def scenario() -> None:
        keys = TokenKeys(settings(key_file.as_uri()))
        keys.watch(asyncio.get_running_loop())
        replace("{}")
        await until(lambda: "the old keys stay" in caplog.text)
        assert user_of(keys, FIRST.token()) == "alice"
        replace(key_set(FIRST, SECOND))
        await until(lambda: "second" in keys.verifier.keys)
        assert user_of(keys, SECOND.token()) == "alice"
        keys.close()

    asyncio.run(scenario())


def test_a_token_with_a_new_key_causes_one_load_and_a_flood_of_them_no_more() -> None:
    async def scenario() -> None:
        with identity_provider(FIRST) as provider:
            keys = TokenKeys(settings(provider.keys_url))
            keys.watch(asyncio.get_running_loop())
            provider.content = key_set(FIRST, SECOND).encode()
            for number in range(500):
                with pytest.raises(AuthenticationFailed, match="no such key"):
                    user_of(keys, TokenIssuer(f"made-up-{number}", number=1).token())
            await until(lambda: "second" in keys.verifier.keys)
            assert user_of(keys, SECOND.token()) == "alice"
            with pytest.raises(AuthenticationFailed, match="no such key"):
                user_of(keys, TokenIssuer("made-up", number=1).token())
            await asyncio.sleep(0.05)
            keys.close()
            assert provider.asked == ["/keys", "/keys"]

    asyncio.run(scenario())


def test_a_url_that_fails_is_asked_again_and_the_old_keys_stay(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with identity_provider(FIRST) as provider:
            keys = TokenKeys(settings(provider.keys_url))
            keys.watch(asyncio.get_running_loop())
            provider.status = 503
            with pytest.raises(AuthenticationFailed, match="no such key"):
                user_of(keys, SECOND.token())
            await until(lambda: caplog.text.count("HTTP status 503") >= 3)
            assert user_of(keys, FIRST.token()) == "alice"
            provider.content, provider.status = key_set(SECOND).encode(), 200
            await until(lambda: "second" in keys.verifier.keys)
            with pytest.raises(AuthenticationFailed, match="no such key"):
                user_of(keys, FIRST.token())  # a key that was withdrawn
            keys.close()

    asyncio.run(scenario())


def test_a_set_is_loaded_again_at_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        with identity_provider(FIRST) as provider:
            keys = TokenKeys(settings(provider.keys_url, jwks_endpoint_refresh_ms="1000"))
            keys.watch(asyncio.get_running_loop())
            await asyncio.get_running_loop().run_in_executor(None, provider.wait_until_asked, 2)
            keys.close()

    asyncio.run(scenario())


def test_a_redirect_is_not_followed() -> None:
    with identity_provider(FIRST) as provider:
        provider.status = 302
        with pytest.raises(KeySetError, match="HTTP status 302"):
            TokenKeys(settings(provider.keys_url))
        assert provider.asked == ["/keys"]


def test_a_url_that_nothing_serves() -> None:
    with identity_provider(FIRST) as provider:
        url = provider.keys_url
    with pytest.raises(KeySetError, match="Connection refused; check the address"):
        TokenKeys(settings(url))


def test_a_server_that_sends_a_byte_at_a_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with pytest.raises(TimeoutError):
        token_keys._bounded(lambda _: b"x")


def test_keys_over_plain_http_are_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(token_keys, "_read_url", lambda _: key_set(FIRST).encode())
    with caplog.at_level(logging.WARNING):
        TokenKeys(settings("https://issuer.example/keys"))
        assert caplog.text == ""
        TokenKeys(settings("http://issuer.example/keys"))
    assert "everyone on the way to it can replace the keys; use https" in caplog.text
