"""Which transactions a tool wants to see."""

from __future__ import annotations

from collections.abc import Collection

from penstock.coordinator.topic_pattern import TopicPattern
from penstock.coordinator.transaction import STATES_BY_LABEL, Transaction


class TransactionFilter:
    """Every condition that is given must hold; an empty one is none. Raises BrokerError for a pattern that is none."""

    def __init__(
        self,
        state_labels: Collection[str] = (),
        producer_ids: Collection[int] = (),
        running_longer_than_ms: int = -1,
        id_pattern: str | None = None,
    ) -> None:
        self._by_state = bool(state_labels)
        self._states = {STATES_BY_LABEL[label] for label in state_labels if label in STATES_BY_LABEL}
        self.unknown_states = [label for label in dict.fromkeys(state_labels) if label not in STATES_BY_LABEL]
        self._producer_ids = frozenset(producer_ids)
        self._running_longer_than_ms = running_longer_than_ms
        self._pattern = TopicPattern(id_pattern) if id_pattern else None

    def matches(self, transaction: Transaction, now_ms: int) -> bool:
        if self._by_state and transaction.state not in self._states:
            return False
        if self._producer_ids and transaction.producer_id not in self._producer_ids:
            return False
        if self._running_longer_than_ms >= 0 and now_ms - transaction.start_ms <= self._running_longer_than_ms:
            return False
        return self._pattern is None or self._pattern.matches(transaction.transactional_id)
