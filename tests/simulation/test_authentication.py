"""Clients of a SASL listener: what they are answered before, during and after authentication."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.credentials import ScramMechanism
from penstock.metadata.changes import ScramCredentialSet
from penstock.metadata.listener_security import ListenerSecurity, SaslSettings
from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.definitions.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.definitions.sasl_handshake import SaslHandshakeRequest
from penstock.protocol.error_codes import ErrorCode
from penstock.security.sasl import client_messages
from penstock.security.sasl_server import scram_credential
from tests.simulation.node import SimulatedClient, Simulation, simulated

DELAY_S = 0.1  # connection.failed.authentication.delay.ms
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def secured(max_reauth_ms: int = 0) -> ListenerSecurity:
    sasl = SaslSettings(MECHANISMS, max_reauth_ms, {"alice": "secret"})
    return ListenerSecurity("PLAINTEXT", "SASL_PLAINTEXT", sasl=sasl)


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[Simulation]:
    with simulated(tmp_path, seed=1) as running:
        users = [
            ScramCredentialSet("alice", scram_credential(mechanism, b"salt", 4096, "secret"))
            for mechanism in ScramMechanism
        ]
        running.node.propose(lambda image: users, lambda error: None)
        running.loop.run_until_idle()
        yield running


def log_in(client: SimulatedClient, mechanism: str, password: str = "secret", user: str = "alice") -> Any:
    """The last answer to SaslAuthenticate."""
    handshake = client.ask(SaslHandshakeRequest(mechanism=mechanism), 1, within_s=0.02)
    assert (handshake.error_code, tuple(handshake.mechanisms)) == (0, MECHANISMS)
    messages = client_messages(mechanism, user, password, "nonce")
    message = next(messages)
    while True:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=message), 2, within_s=2 * DELAY_S)
        if answer.error_code:
            return answer
        try:
            message = messages.send(answer.auth_bytes)
        except StopIteration:
            return answer


def is_served(client: SimulatedClient) -> bool:
    correlation_id = client.send(MetadataRequest(topics=[]), 12)
    client._simulation.run_for(1.0)
    return correlation_id in client.answers


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_that_authenticates_is_served(simulation: Simulation, mechanism: str) -> None:
    client = simulation.client("a", secured())
    assert client.ask(ApiVersionsRequest(), 0).error_code == 0
    assert log_in(client, mechanism).error_code == 0
    assert is_served(client)
    assert client._connection.access.client == ("User:alice", "a")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("eve", "secret")])
def test_a_failure_is_answered_late_and_ends_the_connection(
    simulation: Simulation, mechanism: str, user: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = simulation.client("a", secured())
    before_s = simulation.loop.time()
    caplog.set_level("INFO")
    answer = log_in(client, mechanism, password, user)
    assert (answer.error_code, answer.error_message) == (58, "Authentication failed.")
    assert simulation.loop.time() - before_s >= DELAY_S
    assert not client.is_connected
    [line] = [record.getMessage() for record in caplog.records if "authentication failed" in record.getMessage()]
    assert line.startswith("closing the connection of a:1: authentication failed: " + mechanism)
    assert password not in line.partition("wrong password")[0]


def test_a_failure_is_not_answered_before_the_delay(simulation: Simulation) -> None:
    client = simulation.client("a", secured())
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, within_s=0.02)
    sent = client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
    behind = client.send(MetadataRequest(topics=[]), 12)
    simulation.run_for(DELAY_S * 0.9)
    assert sent not in client.answers
    simulation.run_for(DELAY_S)
    assert client.answers[sent].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not client.is_connected
    assert behind not in client.answers


@pytest.mark.parametrize("handshake", [False, True])
def test_other_requests_before_authentication_end_the_connection(simulation: Simulation, handshake: bool) -> None:
    client = simulation.client("a", secured())
    if handshake:
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, within_s=0.02)
    before_s = simulation.loop.time()
    sent = [client.send(MetadataRequest(topics=[]), 12) for _ in range(2)]
    while client.is_connected:
        simulation.run_for(DELAY_S / 10)
    assert simulation.loop.time() - before_s >= DELAY_S, "who connects again at once has to wait"
    assert not client.answers.keys() & set(sent)


def test_an_unknown_mechanism_is_answered_with_the_known_ones(simulation: Simulation) -> None:
    client = simulation.client("a", secured())
    answer = client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert (answer.error_code, tuple(answer.mechanisms)) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, MECHANISMS)
    assert not client.is_connected


def test_a_listener_without_sasl_says_so(simulation: Simulation) -> None:
    client = simulation.client("a")
    answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(SaslAuthenticateRequest(auth_bytes=b""), 2).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)


def test_a_session_that_expired_serves_nothing_until_it_is_renewed(simulation: Simulation) -> None:
    client = simulation.client("a", secured(max_reauth_ms=10_000))
    assert log_in(client, "SCRAM-SHA-256").session_lifetime_ms == 10_000
    assert is_served(client)
    assert log_in(client, "SCRAM-SHA-256").session_lifetime_ms == 10_000
    simulation.run_for(5)
    assert is_served(client)
    simulation.run_for(6)
    assert not is_served(client)
    assert not client.is_connected


def test_a_large_request_is_not_read_before_authentication(simulation: Simulation) -> None:
    client = simulation.client("a", secured())
    simulation.loop.call_soon(client._arrive, (1_000_000).to_bytes(4, "big"))
    simulation.run_for(1)
    assert not client.is_connected
    client = simulation.client("b", secured())
    log_in(client, "PLAIN")
    simulation.loop.call_soon(client._arrive, (1_000_000).to_bytes(4, "big"))
    simulation.run_for(1)
    assert client.is_connected
