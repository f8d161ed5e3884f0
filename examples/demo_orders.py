"""Generates the demo's orders, together with a ledger of the expected result that does not depend on Spark.

Some orders are repeated, as by a client that retries; some records are broken. A broken record precedes the valid order
that it garbles and has the same id: a pipeline that accepted it would drop the valid order as a repeat.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

# Weights: how often each customer orders.
_CUSTOMERS: Final = {"ada": 9, "bob": 7, "chen": 5, "dina": 4, "emre": 3, "fay": 2, "gus": 1}
_BROKEN_SHARE: Final = 0.02
_REPEATED_SHARE: Final = 0.10
_GARBLED: Final = (
    "order {id} of {customer}, paid in cash",  # not JSON
    '{{"id": {id}, "customer": "{customer}", "amount": ',  # truncated
    '{{"id": {id}, "customer": "{customer}", "amount": "plenty"}}',  # amount of a wrong type
    '{{"id": "no. {id}", "customer": "{customer}", "amount": 1}}',  # id of a wrong type
    '{{"id": {id}, "customer": "{customer}", "amount": -1}}',  # valid JSON of the right types that breaks `expect`
)


@dataclass(slots=True)
class Account:
    """The expected orders and revenue of one customer."""

    orders: int = 0
    revenue: float = 0.0


@dataclass(slots=True)
class Orders:
    """`records` is what to send, in order; the other fields are the expected result."""

    records: list[bytes] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=lambda: {name: Account() for name in _CUSTOMERS})
    broken: Counter[bytes] = field(default_factory=Counter)
    repeats: int = 0

    @property
    def count(self) -> int:
        return sum(account.orders for account in self.accounts.values())


def make_orders(count: int, seed: int) -> Orders:
    """At least `count` records; the same seed gives the same records."""
    chance = random.Random(seed)  # noqa: S311 (nothing secret)
    made = Orders()
    sent: list[bytes] = []
    while len(made.records) < count:
        if sent and chance.random() < _REPEATED_SHARE:
            made.records.append(chance.choice(sent))
            made.repeats += 1
            continue
        order_id = len(sent) + 1
        [customer] = chance.choices(list(_CUSTOMERS), weights=list(_CUSTOMERS.values()))
        if chance.random() < _BROKEN_SHARE:
            garbled = chance.choice(_GARBLED).format(id=order_id, customer=customer).encode()
            made.records.append(garbled)
            made.broken[garbled] += 1
        account = made.accounts[customer]
        account.orders += 1
        # Amounts of one customer are distinct, so that a lost order and a duplicated one cannot cancel out. Multiples
        # of a quarter add up exactly in binary floating point, in any order.
        amount = account.orders * 0.25
        account.revenue += amount
        sent.append(json.dumps({"id": order_id, "customer": customer, "amount": amount}).encode())
        made.records.append(sent[-1])
    return made
