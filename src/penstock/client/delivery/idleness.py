"""When a run with `stop_when_idle_s` may end: it has an assignment, and the brokers confirm that nothing is left in it.

Owns the waiting for an assignment and its limits. It must never know handlers or commits.

Invariant: a run that has no assignment never ends with success. A dead member keeps its partitions until its session
ends, a slow one until it polls again, so an assignment may take much longer than `stop_when_idle_s`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.core.errors import BrokerUnreachable, NoAssignment

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer

_ANNOUNCED_AFTER_S: Final = 5.0
_TOPICS_CHECKED_AFTER_S: Final = 2.0
_REBALANCE_MARGIN_S: Final = 10.0
_log = logging.getLogger("penstock.delivery")


class Idleness:
    """`limit_s` is the time without records after which the run ends; None: it does not."""

    def __init__(
        self, consumer: Consumer, limit_s: float | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._consumer = consumer
        self._limit_s = limit_s
        self._clock = clock
        self._idle_since = clock()
        self._joining_since: float | None = None
        self._unreached_since: float | None = None
        self._announced = self._topics_checked = False

    def records_arrived(self) -> None:
        self._idle_since = self._clock()
        self._joining_since = self._unreached_since = None

    def is_enough(self) -> bool:
        """Call it after a poll without records. Raises NoAssignment if the group does not assign any partitions."""
        if self._limit_s is None:
            return False
        now = self._clock()
        if not self._consumer.settled():
            self._wait_for_assignment(now)
            # The time that it takes to join does not count.
            self._idle_since = now
            return False
        self._joining_since = self._unreached_since = None
        if now - self._idle_since < self._limit_s:
            return False
        if self._consumer.caught_up():
            return True
        self._idle_since = self._clock()
        return False

    def _wait_for_assignment(self, now: float) -> None:
        if self._joining_since is None:
            self._joining_since, self._announced, self._topics_checked = now, False, False
        if self._consumer.has_joined():
            self._unreached_since = None
        elif self._unreached_since is None:
            self._unreached_since = now
        group = self._consumer.group_id
        waited_s = now - self._joining_since
        if self._unreached_since is not None and waited_s >= _TOPICS_CHECKED_AFTER_S and not self._topics_checked:
            # librdkafka does not join a group for topics that do not exist.
            self._topics_checked = True
            with suppress(BrokerUnreachable):
                self._consumer.require_topics()
        if self._unreached_since is not None and now - self._unreached_since >= self._consumer.api_timeout_s:
            raise BrokerUnreachable(
                f"group '{group}': no coordinator answered within {self._consumer.api_timeout_s:g} s; records may be "
                "left; check bootstrap.servers and that the broker is running"
            )
        limit_s = self._consumer.rebalance_timeout_s + _REBALANCE_MARGIN_S
        if waited_s >= limit_s:
            raise NoAssignment(
                f"group '{group}' assigned no partitions within {limit_s:g} s; records may be left: another member has "
                f"not rejoined; `penstock group describe {group} --members` shows the members"
            )
        if waited_s >= _ANNOUNCED_AFTER_S and not self._announced:
            self._announced = True
            _log.warning(
                "waiting for group '%s' to assign partitions; a dead member keeps its own until its session ends", group
            )
