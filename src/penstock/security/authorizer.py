"""Decides what a principal may do, by Kafka's rules (KIP-11, KIP-290).

An `Authorizer` holds every ACL of the cluster, indexed by resource. The node that follows the committed metadata adds
and removes them. Must not know: connections, requests, and where ACLs are stored.

The rules, in their order:
1. A super user may do everything.
2. An ACL counts if its pattern covers the resource, and its principal and host are the client's or the wildcard.
3. A DENY of the operation, or of ALL, wins over every ALLOW.
4. An ALLOW of READ, WRITE, DELETE or ALTER allows DESCRIBE too, and one of ALTER_CONFIGS allows DESCRIBE_CONFIGS.
   A DENY implies nothing.
5. A resource that no ACL covers, for any principal, is open if `allow.everyone.if.no.acl.found` is true.

Invariant: `authorize` decides as a search through the list of all ACLs would (`tests/property/test_authorizer.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from penstock.core.acls import (
    ANY_USER,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
"""The operations of an ALLOW that allow the key."""


class Client(NamedTuple):
    """Who asks: an authenticated principal such as `User:alice`, and the address of its connection."""

    principal: str
    host: str

    @property
    def user(self) -> str:
        """The name that the client proved to have, or Kafka's `ANONYMOUS`. Quotas go by it."""
        return self.principal.removeprefix("User:")


class _Index:
    """The ACLs of one type of resource. A prefix is found by its length, of which there are few."""

    __slots__ = ("_prefix_lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, set[AclBinding]] = {}
        self.prefixed: dict[str, set[AclBinding]] = {}
        self._prefix_lengths: Counter[int] = Counter()

    def add(self, binding: AclBinding) -> None:
        by_name = self._by_name(binding)
        if binding.pattern.name not in by_name:
            by_name[binding.pattern.name] = set()
            if by_name is self.prefixed:
                self._prefix_lengths[len(binding.pattern.name)] += 1
        by_name[binding.pattern.name].add(binding)

    def remove(self, binding: AclBinding) -> None:
        by_name = self._by_name(binding)
        bindings = by_name.get(binding.pattern.name, set())
        bindings.discard(binding)
        if not bindings and by_name.pop(binding.pattern.name, None) is not None and by_name is self.prefixed:
            length = len(binding.pattern.name)
            self._prefix_lengths[length] -= 1
            if not self._prefix_lengths[length]:
                del self._prefix_lengths[length]

    def covering(self, name: str) -> Iterator[AclBinding]:
        """The ACLs whose patterns cover the name."""
        yield from self.literal.get(name, ())
        if name != WILDCARD:
            yield from self.literal.get(WILDCARD, ())
        for length in self._prefix_lengths:
            if length <= len(name):
                yield from self.prefixed.get(name[:length], ())

    def __iter__(self) -> Iterator[AclBinding]:
        for by_name in (self.literal, self.prefixed):
            for bindings in by_name.values():
                yield from bindings

    def _by_name(self, binding: AclBinding) -> dict[str, set[AclBinding]]:
        return self.prefixed if binding.pattern.pattern_type is PatternType.PREFIXED else self.literal


class Authorizer:
    """`version` grows with every change of the ACLs, so that decisions can be remembered between changes."""

    __slots__ = ("_allow_without_acl", "_indexes", "_super_users", "version")

    def __init__(
        self,
        bindings: Iterable[AclBinding] = (),
        *,
        super_users: Iterable[str] = (),
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_without_acl = allow_everyone_if_no_acl_found
        self._indexes: dict[ResourceType, _Index] = {}
        self.version = 0
        for binding in bindings:
            self.add(binding)

    def add(self, binding: AclBinding) -> None:
        self._indexes.setdefault(binding.pattern.resource_type, _Index()).add(binding)
        self.version += 1

    def remove(self, binding: AclBinding) -> None:
        """A binding that is not there changes nothing."""
        index = self._indexes.get(binding.pattern.resource_type)
        if index is not None:
            index.remove(binding)
            self.version += 1

    def replace(self, bindings: Iterable[AclBinding]) -> None:
        """These ACLs, and no others."""
        self._indexes.clear()
        self.version += 1
        for binding in bindings:
            self.add(binding)

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    def authorize(self, client: Client, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        if client.principal in self._super_users:
            return True
        allowed = covered = False
        index = self._indexes.get(resource_type)
        for binding in index.covering(name) if index is not None else ():
            covered = True
            if not _is_for(binding, client, operation):
                continue
            if binding.permission is AclPermission.DENY:
                return False
            allowed = True
        return allowed or (not covered and self._allow_without_acl)

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there can be a resource of this type with which the client may do this (KIP-679)."""
        if client.principal in self._super_users:
            return True
        index = self._indexes.get(resource_type)
        relevant = [b for b in index or () if _is_for(b, client, operation)]
        denied = [b.pattern for b in relevant if b.permission is AclPermission.DENY]
        if any(pattern.name == WILDCARD and pattern.pattern_type is PatternType.LITERAL for pattern in denied):
            return False
        denied_prefixes = tuple(p.name for p in denied if p.pattern_type is PatternType.PREFIXED)
        denied_names = {p.name for p in denied if p.pattern_type is PatternType.LITERAL}
        for binding in relevant:
            if binding.permission is not AclPermission.ALLOW:
                continue
            pattern = binding.pattern
            if pattern.pattern_type is PatternType.LITERAL and pattern.name == WILDCARD:
                return True
            if pattern.name.startswith(denied_prefixes):
                continue
            if pattern.pattern_type is PatternType.PREFIXED or pattern.name not in denied_names:
                return True
        return self._allow_without_acl


def _is_for(binding: AclBinding, client: Client, operation: AclOperation) -> bool:
    """Whether the ACL speaks of this client and this operation."""
    if binding.principal not in (client.principal, ANY_USER) or binding.host not in (client.host, WILDCARD):
        return False
    if binding.operation in (operation, AclOperation.ALL):
        return True
    return binding.permission is AclPermission.ALLOW and binding.operation in IMPLIED_BY.get(operation, ())
