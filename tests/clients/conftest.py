"""One test for each cell of the matrix: clients that nobody here wrote, against the broker under test.

A test names its feature with `@pytest.mark.feature("produce {compression}", compression=COMPRESSIONS)`. Collecting
makes one test for each client that has the feature, and notes the others as "client has none".
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pluggy import Result

from penstock.testing.java import JavaMissingError
from tests.clients.adapters import CLIENTS
from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.confluent_kafka_client import ConfluentKafkaClient
from tests.clients.group_interface import GroupMember, Membership, TransactionalProducer
from tests.clients.interface import LATEST, ClientMissingError, KafkaClient, RefusedError
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.clients.matrix import FAILED, NOT_RUN, OK, ClientMatrix
from tests.clients.waiting import eventually
from tests.conftest import BrokerStarter, RunningBroker, optional_part_missing

# The first cell of all also pays for the start of the broker and the client, and perhaps for fetching them.
CELL_TIMEOUT_S = 120

_MATRIX = pytest.StashKey[ClientMatrix]()

# Groups settle as soon as they can, and members of the newer protocol hear of it soon.
_BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}

ClientFor = Callable[[str], KafkaClient]
NewTopic = Callable[..., str]
Join = Callable[..., GroupMember]
OpenProducer = Callable[[str], TransactionalProducer]


def _matrix(config: pytest.Config) -> ClientMatrix:
    return config.stash.setdefault(_MATRIX, ClientMatrix())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("feature")
    if marker is None:
        return
    matrix = _matrix(metafunc.config)
    template: str = marker.args[0]
    assert len(marker.kwargs) <= 1, "a feature varies in one way at most"
    variant_name, variants = next(iter(marker.kwargs.items()), ("", [""]))
    parameters = []
    for variant in variants:
        feature = template.format(**{variant_name: variant}) if variant_name else template
        for client in CLIENTS:
            if feature in client.has_none:
                matrix.has_none(client.name, feature, client.has_none[feature])
                continue
            matrix.expect(client.name, feature)
            values = [client.name, variant] if variant_name else [client.name]
            marks = (pytest.mark.cell(client.name, feature), pytest.mark.timeout(CELL_TIMEOUT_S))
            parameters.append(pytest.param(*values, id="-".join(values), marks=marks))
    metafunc.parametrize(["client_name", variant_name] if variant_name else ["client_name"], parameters)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Result[pytest.TestReport], None]:
    report = (yield).get_result()
    cell = item.get_closest_marker("cell")
    if cell is None:
        return
    client, feature = cell.args
    if report.failed:
        _matrix(item.config).report(client, feature, FAILED)
    elif report.skipped:
        _matrix(item.config).report(client, feature, NOT_RUN)
    elif report.when == "call":
        _matrix(item.config).report(client, feature, OK)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    matrix = _matrix(session.config)
    if not matrix.is_complete():
        return
    broker = str(session.config.getoption("--broker"))
    name = "client_matrix.json" if broker == "penstock" else f"client_matrix.{broker}.json"
    matrix.write(Path(session.config.rootpath) / "build" / name, broker)


@pytest.fixture(scope="session")
def broker_under_test(start_broker: BrokerStarter) -> Iterator[RunningBroker]:
    """One broker for all cells: tests tell their topics and groups apart by name."""
    with start_broker(_BROKER_SETTINGS) as broker:
        # Apache Kafka creates the topic of groups when it is first asked for one, and has no coordinator until then.
        admin = ConfluentKafkaClient(broker.bootstrap_servers)
        admin.create_topic("matrix-warm-up", 1, {})
        for number in range(16):
            alter = partial(admin.alter_committed, f"matrix-warm-up-{number}", "matrix-warm-up", {0: 0})
            assert eventually(partial(_answers, alter), within_s=60)
        admin.close()
        yield broker


def _answers(ask: Callable[..., object], *arguments: object) -> bool:
    try:
        ask(*arguments)
    except RefusedError:
        return False
    return True


@pytest.fixture(scope="session")
def client_for(broker_under_test: RunningBroker, pytestconfig: pytest.Config) -> Iterator[ClientFor]:
    """Every client is started once for the whole run: a Java or node process costs more than all its cells."""
    started: dict[str, KafkaClient] = {}
    missing: dict[str, str] = {}
    classes = {client.name: client for client in CLIENTS}

    def get(name: str) -> KafkaClient:
        if name not in started and name not in missing:
            try:
                started[name] = classes[name](broker_under_test.bootstrap_servers)
            except (ClientMissingError, JavaMissingError) as error:
                missing[name] = str(error)
            else:
                _matrix(pytestconfig).versions[name] = started[name].version
        if name in missing:
            optional_part_missing(missing[name])
        return started[name]

    yield get
    for client in started.values():
        client.close()


@pytest.fixture(autouse=True)
def _leaked_sockets(request: pytest.FixtureRequest) -> Iterator[None]:
    """kafka-python leaves sockets in cycles of its objects; collected here, they fail no test of another client."""
    yield
    cell = request.node.get_closest_marker("cell")
    if cell is not None and cell.args[0] == KafkaPythonClient.name:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture
def client(client_for: ClientFor, client_name: str) -> KafkaClient:
    return client_for(client_name)


@pytest.fixture
def reference(client_for: ClientFor, client_name: str) -> KafkaClient:
    """The client that checks what the client under test did: confluent-kafka, which aiokafka checks in turn."""
    checker = AiokafkaClient if client_name == ConfluentKafkaClient.name else ConfluentKafkaClient
    return client_for(checker.name)


@pytest.fixture
def new_topic(client_for: ClientFor) -> NewTopic:
    """Creates a topic with a name of its own and returns the name once it can be written to."""

    def create(partitions: int = 1, **config: str) -> str:
        topic = f"matrix-{uuid4().hex[:12]}"
        admin = client_for(ConfluentKafkaClient.name)
        admin.create_topic(topic, partitions, {name.replace("_", "."): value for name, value in config.items()})
        assert eventually(lambda: topic in admin.list_topics())
        # A broker may show a topic before it leads it, and not every client waits for that.
        assert eventually(lambda: all(_answers(admin.list_offset, topic, each, LATEST) for each in range(partitions)))
        return topic

    return create


@pytest.fixture
def group() -> str:
    """The name of a group that nobody else uses."""
    return f"matrix-{uuid4().hex[:12]}"


@pytest.fixture
def join(client: KafkaClient) -> Iterator[Join]:
    """Joins a group with the client under test; whoever has not left when the test ends leaves then."""
    members: list[GroupMember] = []

    def start(group: str, topic: str, **how: Any) -> GroupMember:
        members.append(client.join(Membership(group, topic, **how)))
        return members[-1]

    yield start
    for member in members:
        member.close()


@pytest.fixture
def transactional_producer(client: KafkaClient) -> Iterator[OpenProducer]:
    """Opens transactional producers of the client under test."""
    producers: list[TransactionalProducer] = []

    def start(transactional_id: str) -> TransactionalProducer:
        producers.append(client.transactional_producer(transactional_id))
        return producers[-1]

    yield start
    for producer in producers:
        producer.close()
