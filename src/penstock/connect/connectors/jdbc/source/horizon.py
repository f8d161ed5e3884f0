"""How far a table may be read: up to a bound behind which no running transaction can still commit a row.

`reading_postgres.py` says why. Owns the bounds that wait for transactions; it must not know SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Waiting:
    bound: int
    transactions: frozenset[str]


class Horizon:
    """Of one table. A bound is a number or a moment."""

    def __init__(self) -> None:
        self._waiting: _Waiting | None = None

    @property
    def is_waiting(self) -> bool:
        return self._waiting is not None

    def safe(self, bound: Callable[[], int | None], running: Callable[[], frozenset[str]]) -> int | None:
        """The highest bound that is safe now; None if none is known yet.

        `bound` is asked before `running`: a transaction that took a number below the bound has ended by then, or is
        listed.
        """
        if self._waiting is not None:
            if self._waiting.transactions & running():
                return None
            safe, self._waiting = self._waiting.bound, None
            return safe
        found = bound()
        if found is None:
            return None
        transactions = running()
        if not transactions:
            return found
        self._waiting = _Waiting(found, transactions)
        return None
