"""A consumer group in its own client process: it settles, a member joins, a member dies, and so on.

Owns the sequence and its clocks; `group_members.py` is the protocol of one member. It must not know which broker it
connects to.

Invariant: a figure is the time of a group that settled. A fenced member, an error response, or a group that does not
settle in time is a failure.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import uvloop

from penstock.bench.client_process import run_client
from penstock.bench.group_connection import GroupConnection
from penstock.bench.group_members import ClassicMember, ConsumerMember, Member, Membership, is_settled
from penstock.bench.measurement import MeasurementError
from penstock.core.errors import ProtocolError
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.error_codes import ErrorCode

GroupProtocol = Literal["classic", "consumer"]

_MEMBERS: Final[Mapping[GroupProtocol, type[Member]]] = {"classic": ClassicMember, "consumer": ConsumerMember}
_FIND_COORDINATOR_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """`pause_s` passes before every join, so that a coordinator's minimum interval between assignments has passed."""

    bootstrap_servers: str
    protocol: GroupProtocol
    topic: str
    partition_count: int
    member_count: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    warm_up_count: int
    repeat_count: int
    pause_s: float
    time_limit_s: float

    def run(self) -> GroupResult:
        """Runs the client process until it exits."""
        description = f"a {self.protocol} group of {self.member_count} members over {self.partition_count} partitions"
        result = run_client("penstock.bench.group_load", dataclasses.asdict(self), self.time_limit_s, description)
        return GroupResult(**result)


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One figure per repetition. After a death, the clock starts when the dead member's session ends."""

    after_join_ms: list[float]
    after_death_ms: list[float]


class _Group:
    """The live members, and the time at which their assignments became a settled group."""

    def __init__(self, load: GroupLoad) -> None:
        self._load = load
        self._membership = Membership(
            group_id=f"bench-{load.protocol}",
            topic=load.topic,
            partition_count=load.partition_count,
            session_timeout_ms=load.session_timeout_ms,
            heartbeat_interval_s=load.heartbeat_interval_ms / 1000,
        )
        self._tasks: dict[Member, asyncio.Task[None]] = {}
        self._settled_s: float | None = None
        self._news = asyncio.Event()

    async def prepare(self, phase_s: float) -> Member:
        """Returns a member that is connected and has not joined."""
        connection = await GroupConnection.open(self._load.bootstrap_servers)
        return _MEMBERS[self._load.protocol](connection, self._membership, phase_s, self._look)

    def join(self, member: Member) -> None:
        self._tasks[member] = asyncio.create_task(member.run())
        self._tasks[member].add_done_callback(lambda _task: self._news.set())
        self._look()

    def kill(self, member: Member) -> None:
        member.die()
        self._tasks.pop(member).cancel()
        self._look()

    async def settled(self) -> float:
        """Returns when the group settled, by time.perf_counter()."""
        while self._settled_s is None:
            for task in self._tasks.values():
                if task.done():
                    task.result()
            await self._news.wait()
            self._news.clear()
        return self._settled_s

    def _look(self) -> None:
        if not is_settled([member.owned for member in self._tasks], self._load.partition_count):
            self._settled_s = None
        elif self._settled_s is None:
            self._settled_s = time.perf_counter()
            self._news.set()


async def _measure(load: GroupLoad) -> GroupResult:
    await _await_coordinator(load)
    group = _Group(load)
    for position in range(load.member_count):
        group.join(await group.prepare(phase_s=position / load.member_count * load.heartbeat_interval_ms / 1000))
    await group.settled()

    after_join_ms: list[float] = []
    after_death_ms: list[float] = []
    for _ in range(load.warm_up_count + load.repeat_count):
        await asyncio.sleep(load.pause_s)
        newcomer = await group.prepare(phase_s=asyncio.get_running_loop().time())
        joined_s = time.perf_counter()
        group.join(newcomer)
        after_join_ms.append((await group.settled() - joined_s) * 1000)

        # The new member heartbeats a few times first, as an ordinary member.
        await asyncio.sleep(load.heartbeat_interval_ms * 3.5 / 1000)
        await group.settled()
        group.kill(newcomer)
        session_ends_s = newcomer.last_heard_of_s + load.session_timeout_ms / 1000
        after_death_ms.append((await group.settled() - session_ends_s) * 1000)
    return GroupResult(after_join_ms[load.warm_up_count :], after_death_ms[load.warm_up_count :])


async def _await_coordinator(load: GroupLoad) -> None:
    """Finds the coordinator, by which a broker creates its offsets topic."""
    connection = await GroupConnection.open(load.bootstrap_servers)
    answer = await connection.ask(FindCoordinatorRequest(key=f"bench-{load.protocol}"), _FIND_COORDINATOR_VERSION)
    connection.abort()
    if answer.error_code:
        raise MeasurementError(f"a FindCoordinator was answered with {ErrorCode(answer.error_code).name}")


async def _measure_in_time(load: GroupLoad) -> GroupResult:
    try:
        async with asyncio.timeout(load.time_limit_s):
            return await _measure(load)
    except TimeoutError:
        raise MeasurementError(f"the group did not settle within {load.time_limit_s:g} s") from None


def main() -> int:
    load = GroupLoad(**json.loads(sys.argv[1]))
    try:
        result = uvloop.run(_measure_in_time(load))
    except (MeasurementError, ProtocolError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
