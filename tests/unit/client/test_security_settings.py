"""Kafka's security settings in librdkafka's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.client.security_settings import in_librdkafka_names
from penstock.client.settings import admin_settings
from penstock.core.errors import InvalidClientSetting
from tests.token_issuer import TokenIssuer

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="hush";'


def test_kafka_s_names() -> None:
    config = {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": SCRAM,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "pem",
        "ssl.keystore.location": "/client.pem",
    }
    translated = admin_settings(config).librdkafka
    assert {name: translated[name] for name in translated if name.startswith(("sasl", "ssl"))} == {
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "hush",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/client.pem",
        "ssl.key.location": "/client.pem",
    }


def test_other_settings_stay_as_they_are() -> None:
    config = {"ssl.keystore.location": "/client.p12", "ssl.keystore.password": "x", "linger.ms": 5}
    assert in_librdkafka_names(config) == config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"sasl.jaas.config": SCRAM}, "needs sasl.mechanism"),
        ({"sasl.jaas.config": SCRAM, "sasl.mechanism": "PLAIN"}, "requires PlainLoginModule, not ScramLoginModule"),
        ({"sasl.jaas.config": "hush", "sasl.mechanism": "PLAIN"}, "expected one entry"),
        ({"sasl.jaas.config": SCRAM, "sasl.mechanism": "PLAIN", "sasl.username": "x"}, "not both"),
        ({"sasl.jaas.config": "PlainLoginModule required;", "sasl.mechanism": "PLAIN"}, "no username or no password"),
        ({"ssl.truststore.type": "JKS", "ssl.truststore.location": "/x"}, "only PEM is supported; convert it"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.password": "hush"}, "set ssl.key.password for its key"),
    ],
)
def test_mistakes(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidClientSetting, match=message) as refused:
        in_librdkafka_names(config)
    assert "hush" not in str(refused.value)


def test_a_token_in_a_setting_or_in_a_file(tmp_path: Path) -> None:
    token = TokenIssuer().token(exp=2_000_000_000)
    base = {"bootstrap.servers": "localhost:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    given = admin_settings(base | {"sasl.oauthbearer.token": token}).librdkafka
    assert "sasl.oauthbearer.token" not in given
    assert given["oauth_cb"]("") == (token, 2_000_000_000)
    file = tmp_path / "a token"
    from_file = admin_settings(base | {"sasl.oauthbearer.token.endpoint.url": file.as_uri()}).librdkafka
    assert "sasl.oauthbearer.token.endpoint.url" not in from_file
    file.write_text("opaque\n")
    assert from_file["oauth_cb"]("")[0] == "opaque"
    file.write_text(token)
    assert from_file["oauth_cb"]("") == (token, 2_000_000_000)
    file.unlink()
    with pytest.raises(InvalidClientSetting, match="No such file"):
        from_file["oauth_cb"]("")
    with pytest.raises(InvalidClientSetting, match="set one of"):
        admin_settings(base | {"sasl.oauthbearer.token": "t", "oauth_cb": print})


def test_librdkafka_s_own_way_to_tokens_passes_through() -> None:
    oidc = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
    }
    base = {"bootstrap.servers": "localhost:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert oidc.items() <= admin_settings(base | oidc).librdkafka.items()
