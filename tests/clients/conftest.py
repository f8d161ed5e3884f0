"""One test for each cell of the matrix: clients that nobody here wrote, against the broker under test.

A test names its feature with `@pytest.mark.feature("produce {compression}", compression=COMPRESSIONS)`. Collecting
makes one test for each client that has the feature, and notes the others as "client has none".
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pluggy import Result

from penstock.testing.java import JavaMissingError
from tests.clients.adapters import CLIENTS
from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.confluent_kafka_client import ConfluentKafkaClient
from tests.clients.interface import ClientMissingError, KafkaClient
from tests.clients.matrix import FAILED, NOT_RUN, OK, ClientMatrix
from tests.clients.waiting import eventually
from tests.conftest import RunningBroker, optional_part_missing

# The first cell of all also pays for the start of the broker and the client, and perhaps for fetching them.
CELL_TIMEOUT_S = 120

_MATRIX = pytest.StashKey[ClientMatrix]()

ClientFor = Callable[[str], KafkaClient]
NewTopic = Callable[..., str]


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
        return topic

    return create
