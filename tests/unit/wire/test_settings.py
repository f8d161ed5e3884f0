"""Settings of the wire client: accepted, rejected, and secrets that are never shown."""

from __future__ import annotations

import pickle

import pytest

from penstock.core.errors import InvalidClientSetting
from penstock.wire.settings import SaslSettings, WireSettings

SERVERS = {"bootstrap.servers": "a:1,b"}
SASL = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
OAUTH = {**SASL, "sasl.mechanism": "OAUTHBEARER"}
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
TLS = {**SERVERS, "security.protocol": "SSL"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_defaults_are_kafkas() -> None:
    settings = WireSettings.parse(SERVERS)
    assert settings.servers == (("a", 1), ("b", 9092))
    assert (settings.tls, settings.sasl) == (None, None)
    assert settings.seconds("request.timeout.ms") == 30
    assert settings.seconds("retry.backoff.ms") == 0.1


def test_settings_can_be_sent_to_another_process() -> None:
    settings = WireSettings.parse({**SASL, "sasl.username": "u", "sasl.password": "p"})
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="alice" password="secret"', ("alice", "secret")),
        ("username='alice'  password=bare", ("'alice'", "bare")),
        ('  password="a\\"b\\\\c;d"\n username="al ice"', ("al ice", 'a"b\\c;d')),
        ('serviceName="x" username="u" password=""', ("u", "")),
    ],
)
def test_jaas_configurations(options: str, expected: tuple[str, str]) -> None:
    settings = WireSettings.parse({**SASL, "sasl.jaas.config": f"{PLAIN_MODULE} required {options} ;"})
    assert settings.sasl == SaslSettings("PLAIN", *expected)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (f'{PLAIN_MODULE} required username="u" password="hush-hush"', "cannot be parsed"),
        (f'{PLAIN_MODULE} required password="hush-hush";', "no username"),
        (f'{SCRAM_MODULE} required username="u" password="hush-hush";', "requires PlainLoginModule"),
        ("hush-hush", "cannot be parsed"),
    ],
)
def test_jaas_configurations_that_are_refused_are_not_shown(config: str, message: str) -> None:
    with pytest.raises(InvalidClientSetting, match=message) as refused:
        WireSettings.parse({**SASL, "sasl.jaas.config": config})
    assert "hush-hush" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    settings = WireSettings.parse(
        {
            **SASL,
            "sasl.username": "user",
            "sasl.password": "hush-hush",
            "ssl.key.location": "k",
            "ssl.certificate.location": "c",
            "ssl.key.password": "hush-hush",
        }
    )
    assert "hush-hush" not in repr(settings)
    assert "hush-hush" not in repr(WireSettings.parse({**TLS, "ssl.key.pem": "hush-hush", "ssl.certificate.pem": "c"}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": "a:b:c"}, "bootstrap.servers: .*HOST:PORT"),
        ({**SERVERS, "bootstrap_servers": "a"}, "did you mean 'bootstrap.servers'"),
        ({**SERVERS, "request.timeout.ms": "soon"}, "request.timeout.ms=soon"),
        ({**SERVERS, "request.timeout.ms": "0"}, "must be at least 1"),
        ({**SERVERS, "security.protocol": "TLS"}, "security.protocol=TLS"),
        ({**SERVERS, "sasl.password": "x"}, "sasl.password: no effect"),
        ({**SERVERS, "ssl.ca.location": "x"}, "ssl.ca.location: no effect"),
        ({**SASL, "sasl.username": "u"}, "missing"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI"),
        ({**SASL, "sasl.username": "u", "sasl.jaas.config": "x"}, "not both"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token"),
        ({**OAUTH, "sasl.oauthbearer.token": "t", TOKEN_URL: "file:///t"}, "not both"),
        ({**OAUTH, TOKEN_URL: "ftp://host/t"}, "expected a file:, http: or https: URL"),
        ({**OAUTH, TOKEN_URL: "https://host/t"}, "sasl.oauthbearer.client.id and .* are missing"),
        ({**OAUTH, "sasl.oauthbearer.token": "t", "sasl.oauthbearer.method": "magic"}, "expected oidc or default"),
        ({**OAUTH, "sasl.oauthbearer.token": "t", "sasl.username": "u"}, "no effect with sasl.mechanism=OAUTHBEARER"),
        ({**SASL, "sasl.username": "u", "sasl.password": "p", TOKEN_URL: "file:///t"}, "no effect with"),
        ({**TLS, "ssl.truststore.location": "trust.jks"}, r"JKS store.*ssl\.ca\.location"),
        ({**TLS, "ssl.truststore.type": "PKCS12", "ssl.truststore.location": "t"}, r"PKCS12 store.*ssl\.ca\.location"),
        ({**TLS, "ssl.keystore.location": "key.jks"}, r"JKS store.*ssl\.certificate\.location"),
        ({**TLS, "ssl.truststore.type": "PEM", "ssl.truststore.password": "x"}, "PEM store has no password"),
        ({**TLS, "ssl.key.location": "k"}, "set both"),
        ({**TLS, "ssl.endpoint.identification.algorithm": "maybe"}, "expected https or none"),
    ],
)
def test_what_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidClientSetting, match=message):
        WireSettings.parse(settings)


def test_a_pem_store_of_java_is_taken() -> None:
    settings = WireSettings.parse(
        {
            **TLS,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "both.pem",
        }
    )
    assert settings.tls is not None
    assert settings.tls.ca_file == "ca.pem"
    assert settings.tls.certificate_file == settings.tls.key_file == "both.pem"
