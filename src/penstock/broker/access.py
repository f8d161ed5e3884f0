"""What a client needs to be allowed for an API: Kafka's resource types, operations, and how they combine.

Data only. The router names a requirement for each API; COMPATIBILITY.md and the operations that Metadata reports are
derived from it. Must not know: principals, ACLs, and whether anything is refused. There is no authorizer yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class AclResource(IntEnum):
    """The protocol's numbers for the kinds of resource."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5

    def __str__(self) -> str:
        """Kafka's own spelling: `TransactionalId`."""
        return self.name.title().replace("_", "")


class AclOperation(IntEnum):
    """The protocol's numbers for operations."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12

    def __str__(self) -> str:
        """Kafka's own spelling: `ClusterAction`."""
        return self.name.title().replace("_", "")


class Grant(NamedTuple):
    """One operation on one kind of resource."""

    resource: AclResource
    operation: AclOperation

    def __str__(self) -> str:
        return f"{self.resource} {self.operation}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One of the grants suffices. `when` says in which requests it is asked for; always if it is empty."""

    any_of: tuple[Grant, ...]
    when: str = ""

    def __str__(self) -> str:
        grants = " or ".join(map(str, self.any_of))
        return f"{grants} ({self.when})" if self.when else grants


def needs(*any_of: tuple[AclResource, AclOperation], when: str = "") -> Requirement:
    return Requirement(tuple(Grant(*grant) for grant in any_of), when)
