"""Clients of other projects over every listener type, with right, wrong, expired and missing credentials.

Each client produces to a topic and reads from it. A refusal has two sides: what the client says, and the one line in
the broker's log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from penstock.testing.java import JavaMissingError
from tests.clients.interface import ClientMissingError
from tests.conftest import optional_part_missing
from tests.integration.security.client_attempts import (
    Attempt,
    Refused,
    Settings,
    java_attempts,
    kafkajs_attempts,
    python_attempts,
)
from tests.integration.security.secured_broker import REAUTH_MS, Secured
from tests.token_issuer import TokenIssuer

pytestmark = pytest.mark.clients

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "kafkajs", "java")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SASL_LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")


def slowly(values: tuple[str, ...], *slow: str) -> list[Any]:
    """As parameters of a test; those that take seconds, and whose point others show too, are for `make test-slow`."""
    return [pytest.param(value, marks=pytest.mark.slow) if value in slow else value for value in values]


# Without encryption, one mechanism stands for all.
RIGHT = [
    *(("SASL_SSL", mechanism) for mechanism in MECHANISMS),
    ("SASL_PLAINTEXT", "PLAIN"),
    *(pytest.param("SASL_PLAINTEXT", mechanism, marks=pytest.mark.slow) for mechanism in MECHANISMS[1:]),
]
every_client = pytest.mark.parametrize("client", CLIENTS)
# kafka-python tries again until its timeout, whatever the reason.
refused_client = pytest.mark.parametrize("client", slowly(CLIENTS, "kafka-python"))
refusing_listener = pytest.mark.parametrize("listener", slowly(SASL_LISTENERS, "SASL_PLAINTEXT"))
# What each client says if its credentials are refused. kafka-python and aiokafka log the reason and raise another
# error; kafkajs and aiokafka take the answer to a bad token for a success, and are hung up on with their next request.
AUTHENTICATION_FAILED = {
    "confluent-kafka": "_AUTHENTICATION.*Authentication failed",
    "kafka-python": "Unable to bootstrap",
    "aiokafka": "Unable to bootstrap",
    "kafkajs": "SASL .* authentication failed: Authentication failed|Closed connection",
    "java": "SaslAuthenticationException: Authentication failed",
}
CERTIFICATE_REFUSED = {
    "confluent-kafka": "alert",
    "kafka-python": "Unable to bootstrap",
    "aiokafka": "Unable to bootstrap",
    "kafkajs": "alert",
    "java": "SslAuthenticationException.*(certificate_expired|unknown_ca|certificate_required)",
}
NOT_AUTHORIZED = {
    "confluent-kafka": "TOPIC_AUTHORIZATION_FAILED",
    "kafka-python": "TopicAuthorizationFailed",
    "aiokafka": "TopicAuthorizationFailedError",
    "kafkajs": "Not authorized to access topics",
    "java": "TopicAuthorizationException: Not authorized to access topics: .orders",
}
# aiokafka goes on by a new connection.
AUTHENTICATES_AGAIN = ("confluent-kafka", "kafka-python", "kafkajs", "java")


@pytest.fixture(scope="module")
def attempts() -> Iterator[dict[str, Attempt]]:
    """By client. Java and node start once."""
    with ExitStack() as stack:
        try:
            yield {
                "confluent-kafka": stack.enter_context(python_attempts("confluent-kafka")),
                "kafka-python": stack.enter_context(python_attempts("kafka-python")),
                "aiokafka": stack.enter_context(python_attempts("aiokafka")),
                "kafkajs": stack.enter_context(kafkajs_attempts()),
                "java": stack.enter_context(java_attempts()),
            }
        except (ClientMissingError, JavaMissingError) as missing:
            optional_part_missing(str(missing))


def refusal(attempt: Attempt, settings: Settings, topic: str = "orders") -> str:
    with pytest.raises(Refused) as refused:
        attempt(settings, topic, 0)
    return str(refused.value)


def wrong(secured: Secured, listener: str, mechanism: str) -> tuple[dict[str, str], str]:
    """Settings with credentials that are not right, and the broker's words for it."""
    settings = secured.settings(listener, mechanism)
    if mechanism == "OAUTHBEARER":
        settings["sasl.oauthbearer.token"] = TokenIssuer("first", number=1).token()
        return settings, "OAUTHBEARER: the signature is not valid"
    settings["sasl.password"] = "wrong-s3cret"
    return settings, f"{mechanism}: unknown user or wrong password"


class TestEveryClient:
    @every_client
    def test_without_encryption_and_authentication(
        self, secured: Secured, attempts: dict[str, Attempt], client: str
    ) -> None:
        attempts[client](secured.settings("PLAINTEXT"), "public", 0)

    @every_client
    def test_with_a_client_certificate(self, secured: Secured, attempts: dict[str, Attempt], client: str) -> None:
        attempts[client](secured.settings("SSL"), "orders", 0)

    @every_client
    @pytest.mark.parametrize(("listener", "mechanism"), RIGHT)
    def test_with_right_credentials(
        self, secured: Secured, attempts: dict[str, Attempt], client: str, listener: str, mechanism: str
    ) -> None:
        attempts[client](secured.settings(listener, mechanism), "orders", 0)

    @refused_client
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @refusing_listener
    def test_with_wrong_credentials(
        self, secured: Secured, attempts: dict[str, Attempt], client: str, listener: str, mechanism: str
    ) -> None:
        position = len(secured.broker.log)
        settings, reason = wrong(secured, listener, mechanism)
        said = refusal(attempts[client], settings)
        secured.broker.await_line(f"authentication(?: failed)?: {reason}", position)
        assert re.search(AUTHENTICATION_FAILED[client], said), said
        assert "wrong-s3cret" not in said

    @refused_client
    @refusing_listener
    def test_with_an_expired_token(
        self, secured: Secured, attempts: dict[str, Attempt], client: str, listener: str
    ) -> None:
        position = len(secured.broker.log)
        settings = secured.settings(listener, "OAUTHBEARER")
        settings["sasl.oauthbearer.token"] = secured.issuer.token(lifetime_s=-5)
        said = refusal(attempts[client], settings)
        assert re.search(AUTHENTICATION_FAILED[client], said), said
        secured.broker.await_line("authentication(?: failed)?: OAUTHBEARER: the token has expired", position)

    @refused_client
    @pytest.mark.parametrize("kind", ["missing", "expired", "foreign"])
    def test_with_a_bad_client_certificate(
        self, secured: Secured, attempts: dict[str, Attempt], client: str, kind: str
    ) -> None:
        position = len(secured.broker.log)
        settings = secured.settings("SSL")
        if kind == "missing":
            del settings["ssl.certificate.location"], settings["ssl.key.location"]
        else:
            file = secured.expired_certificate if kind == "expired" else secured.foreign_certificate
            settings["ssl.certificate.location"] = settings["ssl.key.location"] = str(file)
        said = refusal(attempts[client], settings)
        assert re.search(CERTIFICATE_REFUSED[client], said), said
        secured.broker.await_line("the TLS handshake failed: ", position)

    @pytest.mark.parametrize("client", slowly(CLIENTS, "kafka-python", "java"))
    @refusing_listener
    def test_without_credentials(
        self, secured: Secured, attempts: dict[str, Attempt], client: str, listener: str
    ) -> None:
        position = len(secured.broker.log)
        settings = secured.settings(listener)
        for name in ("sasl.mechanism", "sasl.username", "sasl.password"):
            del settings[name]
        settings["security.protocol"] = listener.removeprefix("SASL_")
        refusal(attempts[client], settings)
        secured.broker.await_line("before authentication", position)

    @every_client
    def test_without_rights(self, secured: Secured, attempts: dict[str, Attempt], client: str) -> None:
        said = refusal(attempts[client], secured.settings("SASL_SSL", "SCRAM-SHA-512", "mallory"))
        assert re.search(NOT_AUTHORIZED[client], said), said

    @pytest.mark.parametrize("client", slowly(CLIENTS, "confluent-kafka", "kafka-python", "aiokafka", "kafkajs"))
    def test_beyond_the_end_of_a_session(self, secured: Secured, attempts: dict[str, Attempt], client: str) -> None:
        """KIP-368: sessions of this listener last 1.5 s."""
        position = len(secured.broker.log)
        attempts[client](secured.settings("SHORT", "SCRAM-SHA-256"), "orders", 2.5 * REAUTH_MS / 1000)
        lost = "after the session expired" in secured.broker.log[position:]
        assert lost == (client not in AUTHENTICATES_AGAIN)
