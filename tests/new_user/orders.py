"""Orders, as the tasks send them."""

from __future__ import annotations

from typing import Final

ORDERS: Final = "id BIGINT, customer STRING, amount DOUBLE"


def orders(first: int, end: int) -> list[dict[str, object]]:
    """Of three customers in turn, each for 1.0."""
    return [
        {"id": number, "customer": ("ada", "bob", "chen")[number % 3], "amount": 1.0} for number in range(first, end)
    ]
