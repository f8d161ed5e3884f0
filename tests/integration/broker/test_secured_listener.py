"""Clients of others, our own and the command line against a SASL_SSL listener with an authorizer.

The broker runs on a thread of the test's own process, on real sockets.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from penstock.broker.metrics import ListenerMetrics
from penstock.broker.network.endpoints import BoundListener
from penstock.broker.network.server import Server
from penstock.broker.network.tls import ListenerTls
from penstock.cli.app import run_app
from penstock.cli.command_error import CommandError
from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.core.credentials import ScramMechanism
from penstock.core.errors import AccessDenied
from penstock.core.exit_codes import ExitCode
from penstock.metadata.broker_config_definitions import STANDARD_AUTHORIZER
from penstock.metadata.changes import AclAdded, Endpoint, ScramCredentialSet
from penstock.metadata.topics import NewTopic
from penstock.protocol.error_codes import BrokerError
from penstock.security.sasl_server import scram_credential
from penstock.wire.client import WireClient
from tests.certificates import new_authority
from tests.unit.broker.nodes import commit_changes, make_topics, must_succeed, node_in

LISTENER = "SASL_SSL"
TIMEOUT_S = 30


@dataclass
class Secured:
    port: int
    ca: Path
    traffic: ListenerMetrics

    def settings(
        self, user: str = "alice", password: str = "secret", mechanism: str = "SCRAM-SHA-256"
    ) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"localhost:{self.port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = new_authority(directory / "authority")
    settings = {
        "listeners": f"{LISTENER}://127.0.0.1:0",
        "ssl.keystore.location": str(authority.issue("broker")),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
        "connections.max.reauth.ms": "1500",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    started: list[tuple[int, Callable[[], object], ListenerMetrics]] = []
    ready = threading.Event()

    async def serve() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        with node_in(directory / "data", settings) as node:
            listening = socket.create_server(("127.0.0.1", 0))
            listening.setblocking(False)
            port = listening.getsockname()[1]
            node.register({LISTENER: Endpoint("localhost", port, LISTENER)}, must_succeed)
            make_topics(node, NewTopic("orders", 1, 1), NewTopic("secret", 1, 1))
            for user in ("alice", "admin"):
                for mechanism in ScramMechanism:
                    credential = scram_credential(mechanism, b"salt", 4096, "secret")
                    commit_changes(node, ScramCredentialSet(user, credential))
            for number, pattern in enumerate(
                (
                    ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED),
                    ResourcePattern(ResourceType.GROUP, "*"),
                )
            ):
                all_of_it = AclBinding(pattern, "User:alice", "*", AclOperation.ALL, AclPermission.ALLOW)
                commit_changes(node, AclAdded(bytes((number + 1,)) * 16, all_of_it))
            tls_settings = node.config.listener_security[LISTENER].tls
            assert tls_settings is not None
            server = Server(node)
            traffic = ListenerMetrics(node.metrics, LISTENER)  # the same counters as the server's
            await server.listen([BoundListener(LISTENER, listening, ListenerTls(tls_settings))])
            started.append((port, lambda: loop.call_soon_threadsafe(stopped.set), traffic))
            ready.set()
            await stopped.wait()
            server.close()
            await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(TIMEOUT_S)
    [(port, stop, traffic)] = started
    yield Secured(port, authority.certificate, traffic)
    stop()
    thread.join(TIMEOUT_S)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_produces_and_consumes(secured: Secured, mechanism: str) -> None:
    settings = secured.settings(mechanism=mechanism)
    delivered: list[Any] = []
    producer = confluent_kafka.Producer(settings)
    for number in range(1000):
        producer.produce("orders", str(number), on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert set(delivered) == {None}
    consumer = confluent_kafka.Consumer(
        settings | {"group.id": f"billing-{mechanism}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    received = 0
    while received < 1000:
        messages = consumer.consume(1000, timeout=TIMEOUT_S)
        assert messages
        assert [message.error() for message in messages if message.error()] == []
        received += len(messages)
    consumer.close()


def test_librdkafka_authenticates_again_on_the_same_connection(secured: Secured) -> None:
    """KIP-368: sessions last 1.5 s here."""
    producer = confluent_kafka.Producer(secured.settings())
    producer.produce("orders", "first")
    assert producer.flush(TIMEOUT_S) == 0
    accepted, authenticated = secured.traffic.accepted.value, secured.traffic.authenticated.value
    delivered: list[Any] = []
    while secured.traffic.authenticated.value < authenticated + 2:
        producer.produce("orders", "x", on_delivery=lambda error, _: delivered.append(error))
        assert producer.flush(TIMEOUT_S) == 0
        time.sleep(0.05)
        assert len(delivered) < 1000
    assert set(delivered) == {None}
    assert secured.traffic.accepted.value == accepted


def test_a_forbidden_topic_is_not_listed_and_not_written(secured: Secured) -> None:
    admin = AdminClient(secured.settings())
    assert "secret" not in admin.list_topics(timeout=TIMEOUT_S).topics
    assert "orders" in admin.list_topics(timeout=TIMEOUT_S).topics
    root = AdminClient(secured.settings("admin"))
    assert {"orders", "secret"} <= set(root.list_topics(timeout=TIMEOUT_S).topics)
    delivered: list[Any] = []
    producer = confluent_kafka.Producer(secured.settings() | {"message.timeout.ms": 5000})
    producer.produce("secret", "x", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(TIMEOUT_S)
    [error] = delivered
    assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_wire_client(secured: Secured) -> None:
    with WireClient(secured.settings()) as client:
        assert "orders" in repr(client.metadata(["orders"]))
    with (
        pytest.raises((BrokerError, AccessDenied), match="refused the credentials: Authentication failed") as refused,
        WireClient(secured.settings(password="hush-hush")) as client,
    ):
        client.metadata(["orders"])
    assert "hush-hush" not in str(refused.value)


def test_kafka_python_and_aiokafka(secured: Secured) -> None:
    from aiokafka import AIOKafkaProducer
    from kafka import KafkaProducer

    address = f"localhost:{secured.port}"
    plain = KafkaProducer(
        bootstrap_servers=address,
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="alice",
        sasl_plain_password="secret",
        ssl_cafile=str(secured.ca),
    )
    assert plain.send("orders", b"x").get(TIMEOUT_S).topic == "orders"
    plain.close()

    async def produce() -> str:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_SSL",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="alice",
            sasl_plain_password="secret",
            ssl_context=ssl.create_default_context(cafile=str(secured.ca)),
        )
        await producer.start()
        try:
            return str((await producer.send_and_wait("orders", b"x")).topic)
        finally:
            await producer.stop()

    assert asyncio.run(produce()) == "orders"


def run_command(secured: Secured, *words: str, tmp_path: Path) -> int:
    """As admin, whose password is in a file in Kafka's names."""
    file = tmp_path / "client.properties"
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="secret";'
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={jaas}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={secured.ca}\n"
    )
    return run_app(["--command-config", str(file), *words, "--bootstrap-server", f"localhost:{secured.port}"])


def test_users_and_acls_on_the_command_line(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> str:
        assert run_command(secured, *words, tmp_path=tmp_path) == 0
        return capsys.readouterr().out

    password = tmp_path / "carol.secret"
    password.write_text("carols-secret\n")
    assert run("user", "create", "carol", "--password-file", str(password)) == (
        "User carol can authenticate with SCRAM-SHA-512.\n"
    )
    users = {each["user"]: each["mechanisms"] for each in json.loads(run("user", "list", "--json"))}
    assert users["carol"] == {"SCRAM-SHA-512": 4096}
    created = run("acl", "create", "--allow-principal", "User:carol", "--consumer", "--topic", "secret", "--json")
    assert [each["operation"] for each in json.loads(created)] == ["READ", "DESCRIBE"]
    carol = secured.settings("carol", "carols-secret", "SCRAM-SHA-512")
    assert set(AdminClient(carol).list_topics(timeout=TIMEOUT_S).topics) == {"secret"}
    listed = run("acl", "list", "--topic", "secret", "--resource-pattern-type", "match")
    assert listed.splitlines() == [
        "User:carol allow Read on Topic secret (literal) from *",
        "User:carol allow Describe on Topic secret (literal) from *",
    ]
    deleted = run("acl", "delete", "--topic", "secret")
    assert len(deleted.splitlines()) == 2
    assert set(AdminClient(carol).list_topics(timeout=TIMEOUT_S).topics) == set()
    run("user", "delete", "carol")
    assert "carol" not in run("user", "list")


def test_a_client_that_may_not_alter_the_cluster_gets_one_line(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ["acl", "create", "--allow-principal", "User:alice", "--topic", "secret"]
    for words in (["acl", "list"], create, ["acl", "delete", "--topic", "orders"], ["user", "list"]):
        words += ["--bootstrap-server", f"localhost:{secured.port}"]
        for name, value in secured.settings().items():
            words += ["-X", f"{name}={value}"]
        with pytest.raises(CommandError) as refused:
            run_app(words)
        assert "CLUSTER_AUTHORIZATION_FAILED" in str(refused.value)
        assert "\n" not in str(refused.value)
        assert refused.value.exit_code == ExitCode.ACCESS_DENIED
    assert "every user of this machine can read sasl.password" in capsys.readouterr().err
