"""A broker for the clients, and topics with unique names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from penstock import Admin
from tests.clients.waiting import eventually
from tests.conftest import BrokerStarter

NewTopic = Callable[..., str]


@pytest.fixture(scope="session")
def bootstrap_servers(start_broker: BrokerStarter) -> Iterator[str]:
    """A group's first member need not wait here for others to come, which saves three seconds a test."""
    with start_broker({"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def new_topic(bootstrap_servers: str) -> NewTopic:
    admin = Admin({"bootstrap.servers": bootstrap_servers})

    def create(partitions: int = 1, **config: str) -> str:
        topic = f"client-{uuid4().hex[:12]}"
        settings = {name.replace("_", "."): value for name, value in config.items()}
        admin.create_topic(topic, partitions=partitions, config=settings)
        assert eventually(lambda: topic in admin.list_topics())
        return topic

    return create


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:12]}"
