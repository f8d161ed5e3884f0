"""The rows of the router say what a handler needs and whether it may park; the code must agree."""

from __future__ import annotations

import pytest

from penstock.broker.access import needs
from penstock.broker.authorized_operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, TOPIC_OPERATIONS
from penstock.broker.router import ROUTES, Route
from penstock.core.acls import AclOperation as Op
from penstock.core.acls import ResourceType

BEFORE_AUTHENTICATION = {"SaslHandshake", "ApiVersions", "SaslAuthenticate"}


def bits(*operations: Op) -> int:
    return sum(1 << operation for operation in operations)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_api_says_what_it_needs(route: Route) -> None:
    assert bool(route.access) == (route.name not in BEFORE_AUTHENTICATION)
    assert "\n" not in route.notes
    assert "|" not in route.notes


def test_operations_that_apis_need_are_those_that_kafka_knows_for_the_resource() -> None:
    """Kafka's AclEntry.supportedOperations, without the KIP-48 tokens and the share groups that are not served."""
    assert bits(
        Op.READ, Op.WRITE, Op.CREATE, Op.DELETE, Op.ALTER, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS
    ) == bits(*TOPIC_OPERATIONS)
    assert bits(
        Op.CREATE,
        Op.ALTER,
        Op.DESCRIBE,
        Op.CLUSTER_ACTION,
        Op.DESCRIBE_CONFIGS,
        Op.ALTER_CONFIGS,
        Op.IDEMPOTENT_WRITE,
    ) == bits(*CLUSTER_OPERATIONS)
    assert bits(Op.READ, Op.DELETE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS) == bits(*GROUP_OPERATIONS)


def test_requirements_read_as_in_kafka_s_documentation() -> None:
    requirement = needs(
        (ResourceType.TRANSACTIONAL_ID, Op.WRITE), (ResourceType.CLUSTER, Op.CLUSTER_ACTION), when="in a transaction"
    )
    assert str(requirement) == "TransactionalId Write or Cluster ClusterAction (in a transaction)"
