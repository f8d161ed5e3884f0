"""Tokens of the wire client, from a file and from an identity provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import AccessDenied
from penstock.wire.errors import ConnectionLost
from penstock.wire.settings import WireSettings
from penstock.wire.tokens import TokenEndpoint, token_from
from tests.token_issuer import TokenIssuer, identity_provider

TIMEOUT_S = 10


def test_a_file_is_read_again_for_every_connection(tmp_path: Path) -> None:
    file = tmp_path / "the token"
    endpoint = TokenEndpoint(file.as_uri())
    with pytest.raises(AccessDenied, match="No such file"):
        token_from(endpoint, TIMEOUT_S)
    file.write_text("\n")
    with pytest.raises(AccessDenied, match="is empty; expected a token"):
        token_from(endpoint, TIMEOUT_S)
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert token_from(endpoint, TIMEOUT_S) == token


def test_a_token_is_used_until_most_of_its_lifetime_has_passed() -> None:
    with identity_provider(TokenIssuer()) as provider:
        endpoint = TokenEndpoint(provider.token_url, "alice", "", "alice-secret")
        first = token_from(endpoint, TIMEOUT_S)
        assert token_from(endpoint, TIMEOUT_S) == first
        assert len(provider.asked) == 1
        # Another client of the same endpoint has its own.
        provider.token_lifetime_s = 0
        other = TokenEndpoint(provider.token_url, "alice", "write", "alice-secret")
        token_from(other, TIMEOUT_S)
        token_from(other, TIMEOUT_S)
        assert len(provider.asked) == 3


def test_an_endpoint_that_refuses_or_is_away() -> None:
    with identity_provider(TokenIssuer()) as provider:
        endpoint = TokenEndpoint(provider.token_url, "alice", "", "wrong-secret")
        with pytest.raises(AccessDenied, match="refused the client: HTTP status 401; check") as refused:
            token_from(endpoint, TIMEOUT_S)
        assert "wrong-secret" not in str(refused.value)
    with pytest.raises(ConnectionLost, match="cannot reach"):
        token_from(endpoint, TIMEOUT_S)


def test_no_secret_is_shown() -> None:
    settings = WireSettings.parse(
        {
            "bootstrap.servers": "localhost:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "alice",
            "sasl.oauthbearer.client.secret": "hush",
            "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        }
    )
    assert settings.sasl is not None
    assert settings.sasl.token_endpoint == TokenEndpoint("https://issuer/token", "alice", "", "hush")
    assert "hush" not in repr(settings)
