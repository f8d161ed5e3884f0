"""Members heartbeat once an interval, whatever the grain of the event loop's timers."""

from __future__ import annotations

import asyncio
import math
from typing import Final

import uvloop

from penstock.bench.group_connection import GroupConnection
from penstock.bench.group_members import Member, Membership

_INTERVAL_S: Final = 0.02
_DURATION_S: Final = 0.2


class _CountingMember(Member):
    """Waits for its moment as every member does, and only counts instead of asking."""

    heartbeat_count = 0

    async def run(self) -> None:
        while True:
            await self._wait_for_heartbeat()
            self.heartbeat_count += 1


async def _heartbeat_counts(phases_s: list[float]) -> tuple[list[int], float]:
    """How often each heartbeat, and in how much time."""
    membership = Membership("group", "topic", 10, 2_000, _INTERVAL_S)
    members = [_CountingMember(GroupConnection(), membership, phase_s, lambda: None) for phase_s in phases_s]
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    tasks = [asyncio.create_task(member.run()) for member in members]
    await asyncio.sleep(_DURATION_S)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return [member.heartbeat_count for member in members], loop.time() - started_s


def test_a_member_that_is_woken_early_does_not_heartbeat_twice() -> None:
    """Phases of four tenths of a millisecond: the loop's timers cannot meet them, and wake most members early."""
    counts, elapsed_s = uvloop.run(_heartbeat_counts([position * 0.0004 for position in range(50)]))
    # One more than whole intervals, because the first may be a fraction; and one for the early wake-up at the end.
    assert max(counts) <= math.ceil(elapsed_s / _INTERVAL_S) + 1
    assert min(counts) >= 1
