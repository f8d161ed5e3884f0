"""The orders of the demo, and a ledger of what has to come out: kept while they are made, without Spark's help.

Some orders are sent again, as clients do that got no answer; some records are no orders at all. Each of the latter
stands before the order that it is a garbled copy of, with the same id: a pipeline that took it for the order would then
take the good one for a repeat, and lose it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

# By how much each of them buys.
_CUSTOMERS: Final = {"ada": 9, "bob": 7, "chen": 5, "dina": 4, "emre": 3, "fay": 2, "gus": 1}
_BROKEN_SHARE: Final = 0.02
_REPEATED_SHARE: Final = 0.10
_GARBLED: Final = (
    "order {id} of {customer}, paid in cash",  # no JSON
    '{{"id": {id}, "customer": "{customer}", "amount": ',  # cut off
    '{{"id": {id}, "customer": "{customer}", "amount": "plenty"}}',  # a wrong type
    '{{"id": "no. {id}", "customer": "{customer}", "amount": 1}}',  # another one
    '{{"id": {id}, "customer": "{customer}", "amount": -1}}',  # JSON of the right types, and still no order
)


@dataclass(slots=True)
class Account:
    """What a customer has bought."""

    orders: int = 0
    revenue: float = 0.0


@dataclass(slots=True)
class Orders:
    """`records` is what is sent, in this order; the rest is what has to come out."""

    records: list[bytes] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=lambda: {name: Account() for name in _CUSTOMERS})
    broken: Counter[bytes] = field(default_factory=Counter)
    repeats: int = 0

    @property
    def count(self) -> int:
        return sum(account.orders for account in self.accounts.values())


def make_orders(count: int, seed: int) -> Orders:
    """About `count` records, at least; the same ones for the same seed."""
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
        # No two orders of a customer cost the same: one that is lost and another that counts twice do not even out.
        # Quarters add up exactly in binary, in whatever order.
        amount = account.orders * 0.25
        account.revenue += amount
        sent.append(json.dumps({"id": order_id, "customer": customer, "amount": amount}).encode())
        made.records.append(sent[-1])
    return made
