"""Answers that wait for a decision of their group, and for the log to hold the records behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.broker.deferred import Deferred
from penstock.protocol.error_codes import BrokerError

if TYPE_CHECKING:
    from penstock.broker.groups.shard import GroupShard


class GroupReply(Deferred):
    """The token that state machines hand back. `accept` makes the response of a result, `refuse` that of an error."""

    __slots__ = ("_accept", "_refuse")

    def __init__(self, accept: Callable[[Any], Any], refuse: Callable[[BrokerError], Any]) -> None:
        super().__init__()
        self._accept = accept
        self._refuse = refuse

    def give(self, result: Any) -> None:
        self.complete(self._accept(result))

    def fail(self, error: BrokerError) -> None:
        self.complete(self._refuse(error))


class GatheredReply(Deferred):
    """A response about several groups: given when what it says of each of them is in that group's log.

    Name every group with `await_writes`, then call `all_named`.
    """

    __slots__ = ("_make_response", "_named", "_outstanding")

    def __init__(self, make_response: Callable[[], Any]) -> None:
        super().__init__()
        self._make_response = make_response
        self._outstanding = 0
        self._named = False

    def await_writes(self, shard: GroupShard, on_failed: Callable[[BrokerError], None]) -> None:
        """`on_failed` corrects the response where the log did not take what it says."""
        self._outstanding += 1

        def written(failure: BrokerError | None) -> None:
            if failure is not None:
                on_failed(failure)
            self._outstanding -= 1
            self._give_if_complete()

        shard.after_writes(written)

    def all_named(self) -> GatheredReply:
        self._named = True
        self._give_if_complete()
        return self

    def _give_if_complete(self) -> None:
        if self._named and not self._outstanding:
            self.complete(self._make_response())
