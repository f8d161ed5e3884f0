"""What a filter matches, and which ACLs are refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.acl_filters import AclFilter, parse_binding, parse_filter

LITERAL, PREFIXED, MATCH, ANY = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY


def binding(name: str, pattern_type: PatternType = LITERAL) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, name, pattern_type)
    return AclBinding(pattern, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW)


ORDERS, ORD, EVERY = binding("orders"), binding("ord", PREFIXED), binding("*")
ORDERS_PREFIX = binding("orders", PREFIXED)


@pytest.mark.parametrize(
    ("pattern_type", "name", "expected"),
    [
        (ANY, None, [ORDERS, ORD, EVERY, ORDERS_PREFIX]),
        (MATCH, None, [ORDERS, ORD, EVERY, ORDERS_PREFIX]),
        (MATCH, "orders", [ORDERS, ORD, EVERY, ORDERS_PREFIX]),
        (MATCH, "ordinary", [ORD, EVERY]),
        (ANY, "orders", [ORDERS, ORDERS_PREFIX]),
        (LITERAL, "orders", [ORDERS]),
        (PREFIXED, "orders", [ORDERS_PREFIX]),
        (LITERAL, "*", [EVERY]),
        (PREFIXED, None, [ORD, ORDERS_PREFIX]),
    ],
)
def test_patterns(pattern_type: PatternType, name: str | None, expected: list[AclBinding]) -> None:
    wanted = AclFilter(ResourceType.TOPIC, name, pattern_type)
    assert [acl for acl in (ORDERS, ORD, EVERY, ORDERS_PREFIX) if wanted.matches(acl)] == expected


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(resource_type=ResourceType.GROUP),
        AclFilter(principal="User:bob"),
        AclFilter(principal="User:*"),
        AclFilter(host="10.0.0.1"),
        AclFilter(operation=AclOperation.ALL),
        AclFilter(operation=AclOperation.DESCRIBE),
        AclFilter(permission=AclPermission.DENY),
    ],
)
def test_every_part_of_a_filter_must_match(wanted: AclFilter) -> None:
    assert not wanted.matches(ORDERS)


VALID: dict[str, Any] = {
    "resource_type": 2,
    "name": "orders",
    "pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission": 3,
}


def test_a_valid_acl() -> None:
    assert parse_binding(**VALID) == ORDERS
    assert parse_filter(**VALID).matches(ORDERS)


@pytest.mark.parametrize(
    "mistake",
    [
        {"resource_type": 0},
        {"resource_type": 1},
        {"resource_type": 99},
        {"resource_type": -1},
        {"name": ""},
        {"name": "n" * 40_000},
        {"resource_type": 4},
        {"pattern_type": 1},
        {"pattern_type": 2},
        {"pattern_type": 9},
        {"principal": "alice"},
        {"principal": ""},
        {"principal": "User:"},
        {"principal": ":alice"},
        {"host": ""},
        {"operation": 0},
        {"operation": 1},
        {"operation": 77},
        {"permission": 0},
        {"permission": 1},
        {"permission": 4},
    ],
    ids=str,
)
def test_acls_that_are_refused(mistake: dict[str, Any]) -> None:
    with pytest.raises(BrokerError) as refused:
        parse_binding(**(VALID | mistake))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission"])
@pytest.mark.parametrize("number", [0, 99, -1])
def test_filters_with_unknown_numbers_are_refused(field: str, number: int) -> None:
    with pytest.raises(BrokerError) as refused:
        parse_filter(**(VALID | {field: number}))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
