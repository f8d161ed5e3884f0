"""The vocabulary of Kafka's ACLs: resources, operations, patterns and bindings, with the protocol's numbers.

Data only, for every floor: the metadata stores bindings, `security/` decides by them, messages carry their numbers, and
the command line prints their names. Must not know: who may do what.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a CLUSTER resource."""
WILDCARD: Final = "*"
"""As the name of a literal pattern: every resource. As a host: every host."""
ANY_USER: Final = "User:*"
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that did not have to authenticate."""


class _AclCode(IntEnum):
    def __str__(self) -> str:
        """Kafka's own spelling: `TransactionalId`, `ClusterAction`."""
        return self.name.title().replace("_", "")


class ResourceType(_AclCode):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(_AclCode):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_AclCode):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class PatternType(_AclCode):
    """ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class ResourcePattern(NamedTuple):
    """The resources of one type that have this name, or whose names begin with it."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def matches(self, name: str) -> bool:
        """Whether a resource of this type and this name belongs to the pattern."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclBinding(NamedTuple):
    """One rule: a principal may, or may not, do something with the resources of a pattern, from a host."""

    pattern: ResourcePattern
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission
