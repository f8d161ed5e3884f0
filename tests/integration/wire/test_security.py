"""TLS and SASL against Apache Kafka: accepted and refused connections, and secrets that are never shown."""

from __future__ import annotations

import time
from uuid import uuid4

import confluent_kafka.admin
import pytest

from penstock.core.errors import ClientError, ProtocolError
from penstock.core.ids import TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.client import WireClient
from tests.clients.waiting import eventually
from tests.conftest import RunningBroker
from tests.integration.wire.conftest import KEY_PASSWORD, PLAIN_PASSWORD, Certificates, Listeners
from tests.integration.wire.wire_records import batch_of, new_topic, values_of

pytestmark = pytest.mark.slow

SCRAM_PASSWORD = "scram-secret"


def jaas(module: str, username: str, password: str) -> str:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    return f'org.apache.kafka.common.security.{module} required username="{username}" password="{escaped}";'


def add_scram_user(kafka: RunningBroker, mechanism: str) -> str:
    """A new user with SCRAM_PASSWORD; the name has what SCRAM must escape."""
    admin_api = confluent_kafka.admin
    user = f"user=,{uuid4().hex[:8]}"
    number = {
        "SCRAM-SHA-256": admin_api.ScramMechanism.SCRAM_SHA_256,
        "SCRAM-SHA-512": admin_api.ScramMechanism.SCRAM_SHA_512,
    }[mechanism]
    credential = admin_api.ScramCredentialInfo(number, 4096)
    admin = admin_api.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    upsertion = admin_api.UserScramCredentialUpsertion(user, credential, SCRAM_PASSWORD.encode())
    admin.alter_user_scram_credentials([upsertion])[user].result()
    return user


def assert_works(client: WireClient, kafka: RunningBroker) -> None:
    partition = TopicPartition(new_topic(kafka.bootstrap_servers), 0)
    client.produce({partition: batch_of(b"x" * 200_000, b"y")})
    with client.fetch_ahead(partition, 0, 2) as answers:
        assert [value for fetched in answers for value in values_of(fetched.records)] == [b"x" * 200_000, b"y"]


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("by_jaas", [True, False])
def test_a_password_opens_the_door(
    apache_kafka: RunningBroker,
    listeners: Listeners,
    certificates: Certificates,
    mechanism: str,
    tls: bool,
    by_jaas: bool,
) -> None:
    settings = {"sasl.mechanism": mechanism}
    if tls:
        settings |= {"security.protocol": "SASL_SSL", "bootstrap.servers": listeners.sasl_ssl}
        settings["ssl.ca.location"] = str(certificates.authority)
    else:
        settings |= {"security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": listeners.sasl_plaintext}
    plain = mechanism == "PLAIN"
    user = "alice" if plain else add_scram_user(apache_kafka, mechanism)
    password = PLAIN_PASSWORD if plain else SCRAM_PASSWORD
    if by_jaas:
        module = "plain.PlainLoginModule" if plain else "scram.ScramLoginModule"
        settings["sasl.jaas.config"] = jaas(module, user, password)
    else:
        settings |= {"sasl.username": user, "sasl.password": password}
    with WireClient(settings) as client:
        assert password not in repr(client)
        # A broker learns of a new SCRAM user a moment after the controller has answered.
        assert eventually(lambda: authenticates(client))
        assert_works(client, apache_kafka)


def authenticates(client: WireClient) -> bool:
    try:
        client.metadata([])
    except BrokerError as error:
        if error.code != ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise
        return False
    return True


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_refused_password_is_an_error_at_once(
    apache_kafka: RunningBroker, listeners: Listeners, mechanism: str
) -> None:
    user = "alice" if mechanism == "PLAIN" else add_scram_user(apache_kafka, mechanism)
    settings = {
        "bootstrap.servers": listeners.sasl_plaintext,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": "not-the-password",
    }
    started = time.monotonic()
    with WireClient(settings) as client, pytest.raises(BrokerError, match="refused the credentials") as refused:
        client.list_offsets({TopicPartition("any", 0): "latest"})
    assert time.monotonic() - started < 10
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "not-the-password" not in str(refused.value)


def test_a_mechanism_that_is_not_offered_is_named(apache_kafka: RunningBroker, listeners: Listeners) -> None:
    settings = {
        "bootstrap.servers": listeners.sasl_plaintext,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token": "the-token",
    }
    with WireClient(settings) as client, pytest.raises(BrokerError, match=r"OAUTHBEARER.* offers .*PLAIN") as refused:
        client.metadata()
    assert refused.value.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "the-token" not in str(refused.value)


def test_a_certificate_opens_the_door(
    apache_kafka: RunningBroker, listeners: Listeners, certificates: Certificates
) -> None:
    settings = {
        "bootstrap.servers": listeners.ssl,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client_key),
        "ssl.key.password": KEY_PASSWORD,
    }
    with WireClient(settings) as client:
        assert KEY_PASSWORD not in repr(client)
        assert_works(client, apache_kafka)
    as_text = {
        "bootstrap.servers": listeners.ssl,
        "security.protocol": "SSL",
        "ssl.truststore.certificates": certificates.authority.read_text(),
        "ssl.keystore.certificate.chain": certificates.client.read_text(),
        "ssl.keystore.key": certificates.client_key.read_text(),
        "ssl.key.password": KEY_PASSWORD,
    }
    with WireClient(as_text) as client:
        assert "PRIVATE KEY" not in repr(client)
        assert_works(client, apache_kafka)


def test_an_untrusted_certificate_is_an_error_at_once(
    apache_kafka: RunningBroker, listeners: Listeners, certificates: Certificates
) -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    settings |= {"sasl.username": "alice", "sasl.password": PLAIN_PASSWORD}
    with (
        WireClient({**settings, "bootstrap.servers": listeners.sasl_ssl}) as client,
        pytest.raises(ClientError, match=r"certificate is not trusted.*ssl\.ca\.location"),
    ):
        client.metadata()
    known = {**settings, "ssl.ca.location": str(certificates.authority)}
    elsewhere = {**known, "bootstrap.servers": listeners.sasl_ssl.replace("127.0.0.1", "localhost")}
    with WireClient(elsewhere) as client, pytest.raises(ClientError, match="certificate is not trusted"):
        client.metadata()
    with WireClient({**elsewhere, "ssl.endpoint.identification.algorithm": ""}) as client:
        assert client.metadata([]).brokers


def test_the_wrong_protocol_is_named(
    apache_kafka: RunningBroker, listeners: Listeners, certificates: Certificates
) -> None:
    to_plaintext = {
        "bootstrap.servers": listeners.plaintext,
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.authority),
    }
    to_tls = {"bootstrap.servers": listeners.sasl_ssl}
    for settings in (to_plaintext, to_tls):
        # A broker that hangs up may just be stopping, so it is tried for as long as the call may take.
        with (
            WireClient({**settings, "default.api.timeout.ms": "500"}) as client,
            pytest.raises((ClientError, ProtocolError), match=r"security\.protocol"),
        ):
            client.metadata()
