"""The filters of ListTransactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.coordinator.transaction import Transaction, TransactionFilter, TransactionState
from penstock.protocol.error_codes import BrokerError, ErrorCode

NOW_MS = 10_000
OPEN = replace(Transaction.begin("orders-1", 7, 60_000, 0), state=TransactionState.ONGOING, start_ms=4_000)


@pytest.mark.parametrize(
    ("conditions", "matches"),
    [
        ({}, True),
        ({"state_labels": ["Ongoing", "Empty"]}, True),
        ({"state_labels": ["Empty"]}, False),
        ({"state_labels": ["ongoing"]}, False),
        ({"producer_ids": [6, 7]}, True),
        ({"producer_ids": [6]}, False),
        ({"running_longer_than_ms": 5_999}, True),
        ({"running_longer_than_ms": 6_000}, False),
        ({"running_longer_than_ms": -1}, True),
        ({"id_pattern": "orders-\\d"}, True),
        ({"id_pattern": "orders"}, False),
        ({"id_pattern": ""}, True),
        ({"state_labels": ["Ongoing"], "producer_ids": [6]}, False),
    ],
)
def test_every_condition_must_hold(conditions: dict[str, Any], matches: bool) -> None:
    assert TransactionFilter(**conditions).matches(OPEN, NOW_MS) is matches


def test_states_that_do_not_exist_are_named() -> None:
    wanted = TransactionFilter(["Ongoing", "Undecided", "Undecided"])
    assert wanted.unknown_states == ["Undecided"]
    assert wanted.matches(OPEN, NOW_MS)
    assert not TransactionFilter(["Undecided"]).matches(OPEN, NOW_MS)


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(BrokerError) as caught:
        TransactionFilter(id_pattern="(")
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
