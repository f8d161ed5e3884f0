"""One Penstock and one Apache Kafka for all tests of the wire client; Kafka also has TLS and SASL listeners.

`servers` parametrizes a test with both. It does not parametrize the broker fixtures: tests run in random order, and
each broker starts once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.testing import Broker
from penstock.testing.apache_kafka import ApacheKafka, free_ports
from penstock.testing.java import JavaMissingError
from penstock.wire.client import WireClient
from tests.conftest import RunningBroker, optional_part_missing, require_program

PLAIN_PASSWORD = 'plain "secret", with = and \\'
KEY_PASSWORD = "key-secret"


@dataclass(frozen=True)
class Certificates:
    """PEM files: an authority, the broker's key store, and a client's certificate with its encrypted key."""

    authority: Path
    broker: Path
    client: Path
    client_key: Path


@dataclass(frozen=True)
class Listeners:
    """Apache Kafka's addresses by security protocol."""

    plaintext: str
    ssl: str
    sasl_plaintext: str
    sasl_ssl: str


@pytest.fixture(scope="session")
def penstock_broker() -> Iterator[RunningBroker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def listeners() -> Listeners:
    return Listeners(*(f"127.0.0.1:{port}" for port in free_ports(4)))


@pytest.fixture(scope="session")
def apache_kafka(listeners: Listeners, certificates: Certificates) -> Iterator[RunningBroker]:
    escaped = PLAIN_PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{escaped}";'
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    config = {
        "listeners": f"PLAINTEXT://{listeners.plaintext},SSL://{listeners.ssl},"
        f"SASL_PLAINTEXT://{listeners.sasl_plaintext},SASL_SSL://{listeners.sasl_ssl}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        # A backslash in a properties file stands for itself only when doubled.
        config[f"listener.name.{name}.plain.sasl.jaas.config"] = jaas.replace("\\", "\\\\")
        config[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = scram
        config[f"listener.name.{name}.scram-sha-512.sasl.jaas.config"] = scram
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(ApacheKafka(config=config, heap="512M"))
        except JavaMissingError as missing:
            optional_part_missing(str(missing))
        yield kafka


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    openssl = require_program("openssl", install="apt-get install openssl")
    directory = tmp_path_factory.mktemp("certificates")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=directory, check=True, capture_output=True)

    new_key = ("-newkey", "rsa:2048", "-nodes")
    run("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("broker", "client"):
        run("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        run("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signing)
    encryption = ("-topk8", "-v2", "aes256", "-passout", f"pass:{KEY_PASSWORD}")
    run("pkcs8", *encryption, "-in", "client.key", "-out", "client.encrypted.key")
    store = directory / "broker.pem"
    store.write_text((directory / "broker.key").read_text() + (directory / "broker.crt").read_text())
    return Certificates(directory / "ca.pem", store, directory / "client.crt", directory / "client.encrypted.key")


@pytest.fixture(params=["penstock", pytest.param("apache-kafka", marks=pytest.mark.slow)])
def servers(request: pytest.FixtureRequest) -> str:
    fixture = {"penstock": "penstock_broker", "apache-kafka": "apache_kafka"}[request.param]
    broker: RunningBroker = request.getfixturevalue(fixture)
    return broker.bootstrap_servers


@pytest.fixture
def client(servers: str) -> Iterator[WireClient]:
    with WireClient({"bootstrap.servers": servers}) as client:
        yield client
