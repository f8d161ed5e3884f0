"""What a client needs to be allowed for an API, and whether the client of a connection is allowed it.

The router names a requirement for each API; COMPATIBILITY.md and the operations that Metadata reports are derived from
it. Handlers ask the `Access` of the client's connection, name by name: only they know which names a request holds.
Must not know how a client proved who it is, and how ACLs are stored or compared (`security/authorizer.py`).

Invariant: where an authorizer is configured, no request is decided by an ACL that was removed before it arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.acls import CLUSTER_NAME, AclOperation, ResourceType
from penstock.core.limits import ACCESS_DECISIONS_REMEMBERED_MAX
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.authorizer import Authorizer, Client

if TYPE_CHECKING:
    from penstock.metadata.broker_config import BrokerConfig
    from penstock.metadata.image import ClusterImage


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


_REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Access:
    """What the client of one connection may do: everything, where no authorizer is configured.

    Decisions are remembered until the next change of an ACL, because a client asks the same again and again.
    """

    __slots__ = ("_authorizer", "_decisions", "_version", "client", "is_restricted")

    def __init__(self, authorizer: Authorizer | None, client: Client) -> None:
        self.client = client
        self._authorizer = authorizer
        self._decisions: dict[tuple[AclOperation, ResourceType, str], bool] = {}
        self._version = -1
        self.is_restricted = authorizer is not None
        """False: the methods allow everything, and a hot path need not ask them."""

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        authorizer = self._authorizer
        if authorizer is None:
            return True
        decisions = self._decisions
        if self._version != authorizer.version:
            decisions.clear()
            self._version = authorizer.version
        key = (operation, resource_type, name)
        decision = decisions.get(key)
        if decision is None:
            if len(decisions) >= ACCESS_DECISIONS_REMEMBERED_MAX:
                decisions.clear()
            decision = decisions[key] = authorizer.authorize(self.client, operation, resource_type, name)
        return decision

    def may_with_topic(self, operation: AclOperation, name: str) -> bool:
        return self.may(operation, ResourceType.TOPIC, name)

    def may_with_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_with_any_topic(self, operation: AclOperation) -> bool:
        """Whether there can be a topic with which the client may do this."""
        return self._authorizer is None or self._authorizer.authorize_any(self.client, operation, ResourceType.TOPIC)

    def check(self, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Raises the BrokerError of that kind of resource. It says the same whether or not the resource exists."""
        if self._authorizer is not None and not self.may(operation, resource_type, name):
            raise BrokerError(_REFUSALS[resource_type])

    def check_topic(self, operation: AclOperation, name: str) -> None:
        self.check(operation, ResourceType.TOPIC, name)

    def check_group(self, operation: AclOperation, group_id: str) -> None:
        self.check(operation, ResourceType.GROUP, group_id)

    def check_transactional_id(self, operation: AclOperation, transactional_id: str) -> None:
        self.check(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)

    def check_cluster(self, *any_of: AclOperation) -> None:
        """One of the operations suffices."""
        if not any(self.may_with_cluster(operation) for operation in any_of):
            raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def allowed(self, operations: Iterable[AclOperation], resource_type: ResourceType, name: str) -> int:
        """Those of the operations that are allowed, as KIP-430 reports them: a bit each, at the place of its number."""
        return sum(1 << operation for operation in operations if self.may(operation, resource_type, name))


def authorizer_of(config: BrokerConfig, image: ClusterImage) -> Authorizer | None:
    """None where no authorizer is configured: everything is allowed, as in Kafka."""
    if not config.authorizer_class_name:
        return None
    return Authorizer(
        image.acls.values(),
        super_users=config.super_users,
        allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found,
    )
