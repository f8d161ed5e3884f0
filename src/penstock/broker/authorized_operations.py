"""What a client may do, in the form that Metadata and its relatives report it: one bit per ACL operation (KIP-430).

This broker has no authorizer, so every operation that some API asks for is allowed.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.router import ROUTES
from penstock.core.acls import ResourceType

NOT_ASKED_FOR: Final = -(2**31)


def _operations_on(resource: ResourceType) -> int:
    """A bit for each operation that some API needs on this kind of resource, at the place of its number."""
    operations = {
        grant.operation
        for route in ROUTES
        for requirement in route.access
        for grant in requirement.any_of
        if grant.resource is resource
    }
    return sum(1 << operation for operation in operations)


ALL_TOPIC_OPERATIONS: Final = _operations_on(ResourceType.TOPIC)
ALL_CLUSTER_OPERATIONS: Final = _operations_on(ResourceType.CLUSTER)
ALL_GROUP_OPERATIONS: Final = _operations_on(ResourceType.GROUP)
