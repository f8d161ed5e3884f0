"""Which ACLs a DescribeAcls or DeleteAcls means, and which ones CreateAcls may create.

Turns the numbers and texts of a request into bindings and filters, or refuses them with the reason. Must not know the
ACLs that exist.

Invariant: a number that this version does not know is refused. An ACL that was half understood could allow too much.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from penstock.core.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

CodeT = TypeVar("CodeT", bound=IntEnum)

# Kafka's limits on the lengths of names are those of its records: a string of at most 32767 bytes.
_NAME_BYTES_MAX: Final = 32_767


class AclFilter(NamedTuple):
    """None, or ANY, matches everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, binding: AclBinding) -> bool:
        return (
            self._matches_pattern(binding.pattern)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission in (AclPermission.ANY, binding.permission)
        )

    def _matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        # All patterns that cover the resource of this name.
        return pattern.matches(self.name)


def parse_filter(
    resource_type: int,
    name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """Raises BrokerError(INVALID_REQUEST) for numbers that no version of Kafka gives a meaning here."""
    return AclFilter(
        _known(ResourceType, resource_type, "resource type"),
        name,
        _known(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _known(AclOperation, operation, "operation"),
        _known(AclPermission, permission, "permission type"),
    )


def parse_binding(
    resource_type: int, name: str, pattern_type: int, principal: str, host: str, operation: int, permission: int
) -> AclBinding:
    """A binding that may be created. Raises BrokerError(INVALID_REQUEST) with the reason."""
    kind = _definite(ResourceType, resource_type, "resource type")
    pattern = _definite(PatternType, pattern_type, "pattern type")
    if pattern is PatternType.MATCH:
        raise _invalid("The pattern type MATCH belongs into filters; an ACL is LITERAL or PREFIXED.")
    action = _definite(AclOperation, operation, "operation")
    permitted = _definite(AclPermission, permission, "permission type")
    _check_text("resource name", name)
    _check_text("host", host)
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only resource of type CLUSTER is {CLUSTER_NAME!r}.")
    return AclBinding(ResourcePattern(kind, name, pattern), parse_principal(principal), host, action, permitted)


def parse_principal(text: str) -> str:
    """The principal as it is written: a type, a colon and a name. Raises BrokerError otherwise."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise _invalid(f"The principal {text[:100]!r} is not of the form User:name.")
    _check_text("principal", text)
    return text


def _known(codes: type[CodeT], number: int, what: str) -> CodeT:
    try:
        code = codes(number)
    except ValueError:
        code = codes(0)
    if code == 0:
        raise _invalid(f"The {what} {number} is not known here.")
    return code


def _definite(codes: type[CodeT], number: int, what: str) -> CodeT:
    code = _known(codes, number, what)
    if code == 1:
        raise _invalid(f"The {what} ANY belongs into filters; an ACL names one.")
    return code


def _check_text(what: str, text: str) -> None:
    if not text:
        raise _invalid(f"The {what} is empty.")
    if len(text.encode("utf-8", "surrogatepass")) > _NAME_BYTES_MAX:
        raise _invalid(f"The {what} is longer than {_NAME_BYTES_MAX} bytes.")


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)
