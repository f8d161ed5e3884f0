"""What a client may do, in the form that Metadata and its relatives report it: one bit per ACL operation (KIP-430).

The operations of a kind of resource are those that some API asks for.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.access import Access
from penstock.broker.router import ROUTES
from penstock.core.acls import CLUSTER_NAME, AclOperation, ResourceType

NOT_ASKED_FOR: Final = -(2**31)


def _operations_on(resource: ResourceType) -> tuple[AclOperation, ...]:
    operations = {
        grant.operation
        for route in ROUTES
        for requirement in route.access
        for grant in requirement.any_of
        if grant.resource is resource
    }
    return tuple(sorted(operations))


TOPIC_OPERATIONS: Final = _operations_on(ResourceType.TOPIC)
CLUSTER_OPERATIONS: Final = _operations_on(ResourceType.CLUSTER)
GROUP_OPERATIONS: Final = _operations_on(ResourceType.GROUP)


def topic_operations(access: Access, name: str) -> int:
    return access.allowed(TOPIC_OPERATIONS, ResourceType.TOPIC, name)


def group_operations(access: Access, group_id: str) -> int:
    return access.allowed(GROUP_OPERATIONS, ResourceType.GROUP, group_id)


def cluster_operations(access: Access) -> int:
    """0 for a client that may not describe the cluster, as in Kafka."""
    if not access.may_with_cluster(AclOperation.DESCRIBE):
        return 0
    return access.allowed(CLUSTER_OPERATIONS, ResourceType.CLUSTER, CLUSTER_NAME)
