"""One JVM for all tools, and one broker with an authorizer; tests tell their topics, users and groups apart by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from penstock.testing import Broker
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.kafka_tools.tools import BrokerTools, KafkaTools

# The client of the loopback listener administers; ACLs hold for others.
SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture(scope="session")
def kafka_tools() -> Iterator[KafkaTools]:
    try:
        tools = KafkaTools()
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    with tools:
        yield tools


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(config=SETTINGS) as broker:
        yield broker


@pytest.fixture
def tools(kafka_tools: KafkaTools, broker: Broker) -> BrokerTools:
    """Kafka's tools, told where the broker is."""
    return BrokerTools(kafka_tools, broker.bootstrap_servers)
