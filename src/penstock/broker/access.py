"""What a client needs to be allowed for an API: Kafka's resource types, operations, and how they combine.

Data only. The router names a requirement for each API; COMPATIBILITY.md and the operations that Metadata reports are
derived from it. Must not know: principals, ACLs, and whether anything is refused. There is no authorizer yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.acls import AclOperation, ResourceType


class Grant(NamedTuple):
    """One operation on one kind of resource."""

    resource: ResourceType
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


def needs(*any_of: tuple[ResourceType, AclOperation], when: str = "") -> Requirement:
    return Requirement(tuple(Grant(*grant) for grant in any_of), when)
