"""OAUTHBEARER against a broker process: librdkafka, the wire client and the command line; sessions end with tokens."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.cli.app import run_app
from penstock.client.producer import Producer
from penstock.core.errors import AccessDenied
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WireClient
from tests.integration.security.secured_broker import Secured, broker_process
from tests.token_issuer import TokenIssuer, identity_provider

TIMEOUT_S = 30


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_the_wire_client_is_the_user_of_its_token(secured: Secured, listener: str) -> None:
    with WireClient(secured.settings(listener, "OAUTHBEARER")) as client:
        assert "orders" in repr(client.metadata(["orders"]))
    with WireClient(secured.settings(listener, "OAUTHBEARER", "mallory")) as client, pytest.raises(BrokerError):
        client.metadata(["orders"])


def test_tokens_that_the_broker_refuses_are_one_line_in_its_log(secured: Secured) -> None:
    foreign = TokenIssuer("first", number=1)
    refused = {
        "the token has expired": secured.issuer.token(lifetime_s=-1),
        "the token is not valid yet": secured.issuer.token(nbf=time.time() + 600),
        "the token is for another audience": secured.issuer.token(aud="other"),
        "the token has another issuer": secured.issuer.token(iss="https://other"),
        "the signature is not valid": foreign.token(),
        "the key set has no such key": TokenIssuer("unknown", number=1).token(),
    }
    for reason, token in refused.items():
        before = len(secured.broker.log)
        settings = secured.settings("SASL_PLAINTEXT", "OAUTHBEARER") | {"sasl.oauthbearer.token": token}
        with (
            pytest.raises((BrokerError, AccessDenied), match="refused the credentials"),
            WireClient(settings) as client,
        ):
            client.metadata(["orders"])
        secured.broker.await_line(f"authentication failed: OAUTHBEARER: {reason}", before)
        assert token not in secured.broker.log


@pytest.mark.slow
def test_a_session_ends_with_its_token_and_librdkafka_brings_the_next_one(secured: Secured) -> None:
    """KIP-368: the client renews its token and authenticates again; a producer notices nothing.

    librdkafka looks once a second whether to renew its token. It is told less than the token's lifetime here.
    """
    issued: list[float] = []
    position = len(secured.broker.log)

    def next_token(_: str) -> tuple[str, float]:
        issued.append(time.time())
        return secured.issuer.token(lifetime_s=6), time.time() + 3

    settings = secured.settings("SASL_SSL", "OAUTHBEARER")
    del settings["sasl.oauthbearer.token"]
    with Producer({**settings, "oauth_cb": next_token}) as producer:
        while len(issued) < 5:
            producer.send("orders", b"x").result(TIMEOUT_S)
            time.sleep(0.05)
    assert secured.broker.log[position:] == ""


def test_a_wire_client_whose_token_has_expired_is_let_go_of(secured: Secured) -> None:
    token = secured.issuer.token(lifetime_s=3)
    settings = secured.settings("SASL_PLAINTEXT", "OAUTHBEARER") | {"sasl.oauthbearer.token": token}
    with WireClient(settings) as client:
        client.metadata(["orders"])
        time.sleep(3.5)
        with pytest.raises((BrokerError, AccessDenied), match="refused the credentials"):
            client.metadata(["orders"])


def test_an_identity_provider_gives_keys_to_the_broker_and_tokens_to_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key set by HTTP; a client with an id and a secret, in our wire client, librdkafka and the command line."""
    with identity_provider(TokenIssuer()) as provider:
        properties = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        }
        with broker_process(tmp_path, properties) as broker:
            address = broker.await_ready()["SASL_PLAINTEXT"]
            settings = {
                "bootstrap.servers": address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "alice",
                "sasl.oauthbearer.client.secret": "alice-secret",
                "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            }
            with Producer(settings) as producer:
                producer.send("orders", b"x").result(TIMEOUT_S)
            with WireClient(settings) as client:
                assert "orders" in repr(client.metadata(["orders"]))
            file = tmp_path / "client.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            # One command of librdkafka, one of the wire client.
            for words in (["topic", "list"], ["quota", "list"]):
                assert run_app(["--command-config", str(file), *words]) == 0
            assert "orders" in capsys.readouterr().out
            token_file = tmp_path / "token"
            token_file.write_text(provider.issuer.token("bob"))
            file.write_text(
                f"bootstrap.servers={address}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
                f"sasl.oauthbearer.token.endpoint.url={token_file.as_uri()}\n"
            )
            for words in (["topic", "list"], ["quota", "list"]):
                assert run_app(["--command-config", str(file), *words]) == 0
            assert "alice-secret" not in broker.log
