"""Retries of the wire client: the deadline of a call, and exponential backoff with jitter between its attempts.

The backoff starts from `retry.backoff.ms` after a retriable error and from `reconnect.backoff.ms` after a failed
connection. It must never know what is being retried.
"""

from __future__ import annotations

import random
import time
from typing import Final

from penstock.core.errors import BrokerUnreachable, UnknownTopic
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.errors import ConnectionLost
from penstock.wire.settings import WireSettings

# A new topic becomes known to all brokers with a delay; one that is unknown for longer than this does not exist.
UNKNOWN_TOPIC_GRACE_S: Final = 5.0
# A transaction completes within milliseconds.
_CONCURRENT_TRANSACTIONS_PAUSE_S: Final = 0.02
_UNKNOWN_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Retry:
    """The retries of one call; its time starts with the construction. `subject` begins the error message."""

    def __init__(self, settings: WireSettings, subject: str, timeout_s: float | None = None) -> None:
        self._settings = settings
        self._subject = subject
        self._deadline = time.monotonic() + (
            settings.seconds("default.api.timeout.ms") if timeout_s is None else timeout_s
        )
        self._unknown_since: float | None = None
        self._attempts = 0

    def succeeded(self) -> None:
        """Resets the backoff after progress. The deadline stays."""
        self._attempts = 0

    def pause(self, cause: ConnectionLost | BrokerError) -> None:
        """Waits before the next attempt, or raises if the error is permanent or the deadline has passed."""
        now = time.monotonic()
        if isinstance(cause, BrokerError):
            if not cause.code.retriable:
                raise cause
            self._give_up_on_unknown_topic(cause, now)
        pause_s = self._pause_s(cause)
        self._attempts += 1
        if now + pause_s >= self._deadline:
            if isinstance(cause, BrokerError):
                raise UnknownTopic(cause.message) if cause.code in _UNKNOWN_TOPIC else cause
            raise BrokerUnreachable(f"{self._subject}: no broker answered in time ({cause})") from cause
        time.sleep(pause_s)

    def _give_up_on_unknown_topic(self, cause: BrokerError, now: float) -> None:
        if cause.code not in _UNKNOWN_TOPIC:
            self._unknown_since = None
            return
        self._unknown_since = self._unknown_since or now
        if now - self._unknown_since >= UNKNOWN_TOPIC_GRACE_S:
            raise UnknownTopic(cause.message) from cause

    def _pause_s(self, cause: ConnectionLost | BrokerError) -> float:
        if isinstance(cause, BrokerError) and cause.code == ErrorCode.CONCURRENT_TRANSACTIONS:
            return _CONCURRENT_TRANSACTIONS_PAUSE_S
        kind = "reconnect" if isinstance(cause, ConnectionLost) else "retry"
        first, longest = self._settings.seconds(f"{kind}.backoff.ms"), self._settings.seconds(f"{kind}.backoff.max.ms")
        # Jitter, so that tasks that failed together do not retry together.
        jitter = random.uniform(0.8, 1.2)  # noqa: S311 (not a secret)
        return min(first * 2.0 ** min(self._attempts, 20), longest) * jitter
