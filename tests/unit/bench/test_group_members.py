"""Members heartbeat once per interval; when a group has settled; the range assignment."""

from __future__ import annotations

import asyncio
import math
from typing import Final

import pytest
import uvloop

from penstock.bench.group_connection import GroupConnection
from penstock.bench.group_members import Member, Membership, is_settled, range_assignment

_INTERVAL_S: Final = 0.02
_DURATION_S: Final = 0.2
_PARTITIONS: Final = 5


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


@pytest.mark.parametrize("owned", [[{0, 1, 2}, {3, 4}], [{4}, {0}, {1}, {2}, {3}], [{0, 1, 2, 3, 4}]])
def test_everything_owned_once_and_evenly_is_settled(owned: list[set[int]]) -> None:
    assert is_settled(owned, _PARTITIONS)


@pytest.mark.parametrize(
    "owned",
    [
        [],
        [set(), set()],
        [{0, 1}, {2, 3}],
        [{0, 1, 2}, {2, 3}],
        [{0, 1, 2}, {2, 3, 4}],
        [{0, 1, 2, 3}, {4}],
        [{0, 1, 2}, {3, 4}, set()],
    ],
    ids=[
        "no member",
        "no partition",
        "unowned",
        "unowned and owned twice",
        "owned twice",
        "uneven",
        "a new member without partitions",
    ],
)
def test_anything_else_is_not(owned: list[set[int]]) -> None:
    assert not is_settled(owned, _PARTITIONS)


def test_the_leader_assigns_ranges_in_the_order_of_member_ids() -> None:
    assert range_assignment(["c", "a", "b"], _PARTITIONS) == {"a": [0, 1], "b": [2, 3], "c": [4]}


@pytest.mark.parametrize(("member_count", "partition_count"), [(1, 7), (50, 500), (51, 500), (7, 3)])
def test_a_range_assignment_is_settled(member_count: int, partition_count: int) -> None:
    assigned = range_assignment([f"member-{number}" for number in range(member_count)], partition_count)
    assert is_settled([set(partitions) for partitions in assigned.values()], partition_count)
