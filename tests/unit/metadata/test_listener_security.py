"""How listeners are secured: Kafka's names, their prefixes, and one line for each mistake."""

from __future__ import annotations

import pytest

from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_definition import ConfigError
from penstock.metadata.listener_security import OAuthSettings

USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hush" user_bob="hush-2";'
FOUR = f"""
listeners=PLAINTEXT://localhost:9092,SSL://localhost:9093,SASL_PLAINTEXT://localhost:9094,OUTSIDE://0.0.0.0:9095
advertised.listeners=PLAINTEXT://localhost:9092,OUTSIDE://broker.example:19095
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,OUTSIDE:SASL_SSL
inter.broker.listener.name=SASL_PLAINTEXT
ssl.keystore.location=/etc/broker.pem
ssl.key.password=hush
listener.name.outside.ssl.keystore.location=/etc/outside.pem
listener.name.outside.ssl.client.auth=requested
listener.name.outside.ssl.truststore.location=/etc/clients.pem
sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config={USERS}
listener.name.outside.connections.max.reauth.ms=5000
"""


def test_several_listeners_each_with_its_own_security() -> None:
    config = BrokerConfig.load(properties_text=FOUR)
    secured = config.listener_security
    assert {name: security.protocol for name, security in secured.items()} == {
        "PLAINTEXT": "PLAINTEXT",
        "SSL": "SSL",
        "SASL_PLAINTEXT": "SASL_PLAINTEXT",
        "OUTSIDE": "SASL_SSL",
    }
    assert [str(each) for each in config.advertised_listeners][-1] == "OUTSIDE://broker.example:19095"
    assert [each.protocol for each in config.advertised_listeners][-1] == "SASL_SSL"
    assert config.inter_broker_listener_name == "SASL_PLAINTEXT"
    tls, outside = secured["SSL"].tls, secured["OUTSIDE"].tls
    assert tls is not None
    assert outside is not None
    assert (tls.keystore_file, tls.client_auth) == ("/etc/broker.pem", "none")
    assert (outside.keystore_file, outside.client_auth) == ("/etc/outside.pem", "requested")
    assert outside.key_password == "hush"
    inside, sasl = secured["SASL_PLAINTEXT"].sasl, secured["OUTSIDE"].sasl
    assert inside is not None
    assert sasl is not None
    assert (inside.mechanisms, inside.plain_users) == (
        ("PLAIN", "SCRAM-SHA-512"),
        {"alice": "hush", "bob": "hush-2"},
    )
    assert (sasl.mechanisms, sasl.max_reauth_ms, sasl.plain_users) == (("SCRAM-SHA-256",), 5000, {})
    assert [secured[name].authenticates for name in secured] == [False, False, True, True]


def test_no_secret_is_shown() -> None:
    config = BrokerConfig.load(properties_text=FOUR)
    assert "hush" not in repr(config.listener_security)


SASL = "listeners=SASL_PLAINTEXT://:9092\n"
SSL = "listeners=SSL://:9092\n"
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config="
OAUTH = SASL + "sasl.enabled.mechanisms=OAUTHBEARER\n"
OAUTH_JAAS = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config="
KEYS = "sasl.oauthbearer.jwks.endpoint.url="


def test_oauthbearer_by_kafka_s_names() -> None:
    """A setting with the listener and the mechanism comes before one with the listener, and that before the plain."""
    prefix = "listener.name.sasl_plaintext."
    validator = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    config = BrokerConfig.load(
        properties_text=OAUTH
        + KEYS
        + f"""https://issuer/keys
{OAUTH_JAAS}org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
{prefix}oauthbearer.sasl.server.callback.handler.class={validator}
sasl.oauthbearer.expected.audience=kafka,other
sasl.oauthbearer.expected.issuer=https://plain
{prefix}sasl.oauthbearer.expected.issuer=https://listener
{prefix}oauthbearer.sasl.oauthbearer.expected.issuer=https://mechanism
{prefix}sasl.oauthbearer.sub.claim.name=client_id
{prefix}oauthbearer.sasl.oauthbearer.clock.skew.seconds=5
"""
    )
    sasl = config.listener_security["SASL_PLAINTEXT"].sasl
    assert sasl is not None
    assert sasl.oauth == OAuthSettings(
        jwks_url="https://issuer/keys",
        refresh_ms=3_600_000,
        retry_backoff_ms=100,
        retry_backoff_max_ms=10_000,
        expected_audience=("kafka", "other"),
        expected_issuer="https://mechanism",
        subject_claim="client_id",
        scope_claim="scope",
        clock_skew_seconds=5,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SASL, "SASL needs a mechanism; set sasl.enabled.mechanisms"),
        (SASL + "sasl.enabled.mechanisms=GSSAPI", "'GSSAPI' is not accepted; expected one of PLAIN"),
        (SASL + "sasl.enabled.mechanisms=PLAIN", "PLAIN needs users; set listener.name.sasl_plaintext.plain"),
        (SASL + f"sasl.enabled.mechanisms=PLAIN\n{JAAS}hush", "expected one entry"),
        (SASL + f"sasl.enabled.mechanisms=PLAIN\n{JAAS}ScramLoginModule required;", "requires PlainLoginModule"),
        (SASL + f'sasl.enabled.mechanisms=PLAIN\n{JAAS}PlainLoginModule required alice="hush";', "user_NAME"),
        (SASL + f'sasl.enabled.mechanisms=PLAIN\n{JAAS}PlainLoginModule required user_a="";', "empty password"),
        (OAUTH, "OAUTHBEARER needs keys to check tokens by; set sasl.oauthbearer.jwks.endpoint.url"),
        (OAUTH + KEYS + "ftp://issuer/keys", "write https://host/path or file:///path"),
        (OAUTH + KEYS + "https:///keys", "write https://host/path or file:///path"),
        (OAUTH + KEYS + "file://keys.json", "with three slashes"),
        (OAUTH + KEYS + "https://[issuer/keys", "not a URL"),
        (OAUTH + KEYS + "https://me:hush@issuer/keys", "a user or a password in a URL ends up in logs"),
        (OAUTH + KEYS + "https://issuer/keys\nsasl.oauthbearer.clock.skew.seconds=-1", "a value of at least 0"),
        (
            OAUTH + "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=com.example.Mine",
            "sasl.server.callback.handler.class: 'com.example.Mine' is not accepted; expected one of org.apache.kafka",
        ),
        (
            OAUTH + KEYS + f"https://issuer/keys\n{OAUTH_JAAS}ScramLoginModule required;",
            "requires OAuthBearerLoginModule, not ScramLoginModule",
        ),
        (
            OAUTH
            + KEYS
            + f'https://issuer/keys\n{OAUTH_JAAS}OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a";',
            "the option unsecuredLoginStringClaim_sub is not supported; tokens must be signed",
        ),
        ("listener.name.plaintext.plain.sasl.oauthbearer.clock.skew.seconds=1", "not a setting that a listener can"),
        ("sasl.jaas.config=hush", "name the listener and the mechanism"),
        ("listener.name.plaintext.sasl.jaas.config=hush", "name the mechanism too"),
        ("listener.name.other.ssl.client.auth=none", r"other is not one of the names in listeners \(PLAINTEXT\)"),
        ("listener.name.plaintext.num.partitions=1", "not a setting that a listener can have for itself"),
        ("listener.security.protocol.map=PLAINTEXT:TLS", "TLS is not a security protocol"),
        (SSL, "TLS needs a certificate"),
        (SSL + "ssl.keystore.type=JKS", "'JKS' is not accepted; expected one of PEM"),
        (SSL + "ssl.keystore.certificate.chain=x", "ssl.keystore.key is missing"),
        (SSL + "ssl.keystore.location=/k\nssl.keystore.key=hush", "not both"),
        (SSL + "ssl.keystore.location=/k\nssl.keystore.password=hush", "set ssl.key.password"),
        (SSL + "ssl.keystore.location=/k\nssl.client.auth=required", "set ssl.truststore.location"),
        (SSL + "ssl.keystore.location=/k\nssl.enabled.protocols=TLSv1.1", "expected one of TLSv1.2, TLSv1.3"),
        ("super.users=alice", "'alice' is not a principal"),
        ("authorizer.class.name=com.example.Mine", "'com.example.Mine' is not accepted"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        BrokerConfig.load(properties_text=text)
    assert "\n" not in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.password",
        "ssl.keystore.key",
        "listener.name.ssl.ssl.key.password",
        "listener.name.sasl_ssl.plain.sasl.jaas.config",
        "sasl.jaas.config",
    ],
)
def test_secrets_are_refused_on_the_command_line(name: str) -> None:
    with pytest.raises(ConfigError, match="can be read by every user of this machine") as refused:
        BrokerConfig.load(overrides=[f"{name}=hush"])
    assert "hush" not in str(refused.value)


def test_super_users() -> None:
    config = BrokerConfig.load(properties_text="super.users=User:alice; User:CN=broker,O=example ;")
    assert config.super_users == ("User:alice", "User:CN=broker,O=example")
