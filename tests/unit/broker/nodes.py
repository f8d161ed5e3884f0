"""A whole node inside the test's own process: real journal, real logs in a temporary directory, and no sockets.

Changes of its metadata are committed at once (`ImmediateStore`), so that a scenario needs no turn of the loop for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.broker.access import Access
from penstock.broker.main import open_node
from penstock.broker.node import Node
from penstock.broker.system import SystemClock, SystemEntropy
from penstock.broker.topic_creation import CreationResults, create_topics
from penstock.core.acls import ANONYMOUS
from penstock.core.clock import Clock, Entropy
from penstock.core.metrics import Metrics
from penstock.metadata.broker_config import BrokerConfig, is_secret
from penstock.metadata.changes import Change, Endpoint
from penstock.metadata.topics import NewTopic
from penstock.protocol.error_codes import BrokerError
from penstock.security.authentication import Authentication
from penstock.security.authorizer import Client
from tests.unit.metadata.stores import immediate_store

LISTENER_NAME: Final = "PLAINTEXT"


@dataclass
class FakeConnection:
    """What a handler is told of its client. A handler that hangs up fails the test."""

    listener_name: str = LISTENER_NAME
    peer: str = "127.0.0.1:1"
    access: Access = field(default_factory=lambda: Access(None, Client(ANONYMOUS, "127.0.0.1")))

    authentication: Authentication | None = None

    def authenticated(self) -> None:
        pass

    def hang_up_after_answer(self, reason: str) -> None:
        pass

    def hang_up(self, reason: str) -> None:
        raise AssertionError(f"the connection would be closed: {reason}")


@contextmanager
def node_in(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    *,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    on_fatal: Callable[[str], None] | None = None,
) -> Iterator[Node]:
    """Must be entered inside a running loop. Opened again on the same directory, it finds what was written.

    A node that gives up its log directory fails the test unless `on_fatal` expects that; it is then closed as it is
    after a crash.
    """
    failures: list[str] = []

    def fail(message: str) -> None:
        failures.append(message)
        if on_fatal is None:
            raise AssertionError(message)
        on_fatal(message)

    overrides = {"log.dirs": str(directory), "offsets.topic.num.partitions": "2", **(settings or {})}
    config = config_of(overrides)
    entropy = entropy or SystemEntropy()
    node = open_node(
        config,
        directory,
        immediate_store(directory, entropy.uuid, node_id=config.node_id),
        asyncio.get_running_loop(),
        fail,
        clock=clock or SystemClock(),
        entropy=entropy,
        metrics=Metrics(),
    )
    node.register({LISTENER_NAME: Endpoint("127.0.0.1", 9092)}, must_succeed)
    node.open_topics()
    try:
        yield node
    finally:
        node.close(clean=not failures)


def config_of(settings: Mapping[str, str]) -> BrokerConfig:
    """Secrets are written to a file, as they are refused on the command line."""
    secrets = "".join(f"{name}={value}\n" for name, value in settings.items() if is_secret(name))
    overrides = [f"{name}={value}" for name, value in settings.items() if not is_secret(name)]
    return BrokerConfig.load(properties_text=secrets, overrides=overrides)


def must_succeed(error: BrokerError | None) -> None:
    assert error is None, error


def make_topics(node: Node, *wanted: NewTopic) -> CreationResults:
    """The outcome by name."""
    outcomes: list[CreationResults] = []
    create_topics(node, wanted, outcomes.append)
    [outcome] = outcomes
    return outcome


def commit_changes(node: Node, *changes: Change) -> None:
    node.propose(lambda image: changes, must_succeed)
