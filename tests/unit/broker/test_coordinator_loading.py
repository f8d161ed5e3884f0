"""Coordinators that load in slices: bounded work in each turn, errors told once, and no state before it is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.append import Waiter
from penstock.broker.coordinator_loading import CoordinatorLoads, LoadSteps
from penstock.core import limits
from penstock.core.metrics import Histogram
from penstock.protocol.error_codes import BrokerError, ErrorCode

PER_TURN = 10


class FakePartition:
    def __init__(self, index: int) -> None:
        self.index = index
        self.is_deleted = False
        self.is_leader = True
        self.leader_epoch = 0
        self.high_watermark = 0
        self.log = SimpleNamespace(log_end_offset=0)
        self.waiters: set[Waiter] = set()

    def add_waiter(self, waiter: Waiter) -> None:
        self.waiters.add(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self.waiters.discard(waiter)

    def changes(self) -> None:
        for waiter in tuple(self.waiters):
            waiter.records_arrived(0)

    def __repr__(self) -> str:
        return f"topic-{self.index}"


class Loading:
    """Partitions of so many records each; counts the steps that are taken."""

    def __init__(self, *records: int) -> None:
        self.records = records
        self.partitions = [FakePartition(index) for index in range(len(records))]
        self.failing: int | None = None  # the partition that cannot be read to its end
        self.record_bytes = 1
        self.steps = 0
        self.load_time = Histogram({}, (0.001,))
        self.on_loaded: list[tuple[int, str]] = []
        find: Any = self.partitions.__getitem__
        self.loads: CoordinatorLoads[str] = CoordinatorLoads(
            asyncio.get_running_loop(),
            find,
            self._load,
            lambda index, state: self.on_loaded.append((index, state)),
            self.load_time,
        )

    def _load(self, index: int) -> LoadSteps[str]:
        for _ in range(self.records[index]):
            self.steps += 1
            yield self.record_bytes
        if index == self.failing:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "damaged")
        return f"state {index}"

    def code_of(self, index: int) -> ErrorCode:
        try:
            self.loads.get(index)
        except BrokerError as error:
            return ErrorCode(error.code)
        return ErrorCode.NONE


@pytest.fixture(autouse=True)
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COORDINATOR_LOAD_RECORDS_PER_TURN", PER_TURN)


def run(scenario: Callable[[], Any]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_a_small_partition_is_loaded_within_the_call() -> None:
    async def scenario() -> None:
        loading = Loading(PER_TURN - 1)
        assert loading.loads.get(0) == "state 0"
        assert loading.on_loaded == [(0, "state 0")]
        assert loading.load_time.count == 1
        assert loading.loads.get(0) == "state 0"
        assert len(loading.on_loaded) == 1

    run(scenario)


def test_a_large_partition_is_loaded_over_several_turns_and_refused_meanwhile() -> None:
    async def scenario() -> None:
        loading = Loading(3 * PER_TURN + 1)
        for turn in range(1, 4):
            assert loading.code_of(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert loading.code_of(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "asking again does no further work"
            assert loading.steps == turn * PER_TURN
            assert not loading.loads.loaded
            await asyncio.sleep(0)
        assert loading.code_of(0) is ErrorCode.NONE

    run(scenario)


def test_records_that_are_large_end_a_turn_early() -> None:
    async def scenario() -> None:
        loading = Loading(4)
        loading.record_bytes = limits.COORDINATOR_LOAD_BYTES_PER_TURN
        for turn in range(1, 5):
            assert loading.code_of(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert loading.steps == turn
            await asyncio.sleep(0)
        assert loading.code_of(0) is ErrorCode.NONE

    run(scenario)


def test_many_partitions_share_the_work_of_a_turn() -> None:
    async def scenario() -> None:
        loading = Loading(*[PER_TURN // 2] * 7)
        for turn in range(1, 4):
            with pytest.raises(BrokerError) as raised:
                loading.loads.get_all(range(7))
            assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert loading.steps == turn * PER_TURN
            await asyncio.sleep(0)
        assert loading.loads.get_all(range(7)) == [f"state {index}" for index in range(7)]

    run(scenario)


@pytest.mark.parametrize("records", [1, PER_TURN + 1])
def test_a_failure_is_told_once_and_the_next_request_tries_again(records: int) -> None:
    async def scenario() -> None:
        loading = Loading(records)
        loading.failing = 0
        codes = []
        for _ in range(2):
            codes.append(loading.code_of(0))
            await asyncio.sleep(0)
        in_progress = [] if records == 1 else [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        assert codes == [*in_progress, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * (2 - len(in_progress))]
        loading.failing = None
        loading.code_of(0)
        await asyncio.sleep(0)
        assert loading.code_of(0) is ErrorCode.NONE

    run(scenario)


def test_a_topic_that_is_deleted_meanwhile_ends_its_loads() -> None:
    async def scenario() -> None:
        loading = Loading(2 * PER_TURN, 2 * PER_TURN)
        assert loading.code_of(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        loading.partitions[0].is_deleted = True
        await asyncio.sleep(0)
        assert loading.code_of(0) is ErrorCode.NOT_COORDINATOR

        assert loading.code_of(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        steps = loading.steps
        loading.loads.clear()
        for _ in range(3):
            await asyncio.sleep(0)
        assert loading.steps == steps
        assert loading.on_loaded == []

    run(scenario)


def test_only_the_current_state_can_be_discarded() -> None:
    async def scenario() -> None:
        loading = Loading(1)
        state = loading.loads.get(0)
        assert not loading.loads.discard(0, "another")
        assert loading.loads.discard(0, state)
        assert loading.loads.get(0) == state
        assert len(loading.on_loaded) == 2

    run(scenario)


def test_what_the_replicas_do_not_hold_yet_is_not_told() -> None:
    async def scenario() -> None:
        loading = Loading(3)
        [partition] = loading.partitions
        partition.log.log_end_offset, partition.high_watermark = 5, 3
        assert loading.code_of(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        partition.high_watermark = 4
        partition.changes()
        assert loading.code_of(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        # Later records, such as markers, are not what was read.
        partition.log.log_end_offset, partition.high_watermark = 9, 5
        partition.changes()
        assert loading.loads.get(0) == "state 0"
        assert loading.on_loaded == [(0, "state 0")]
        assert not partition.waiters

    asyncio.run(scenario())


@pytest.mark.parametrize("is_leader", [False, True])
def test_a_load_that_waits_for_replicas_ends_with_the_leader_epoch(is_leader: bool) -> None:
    async def scenario() -> None:
        loading = Loading(3)
        [partition] = loading.partitions
        partition.log.log_end_offset = 5
        assert loading.code_of(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        partition.is_leader, partition.leader_epoch, partition.high_watermark = is_leader, 1, 5
        partition.changes()
        assert loading.on_loaded == []
        loading.loads.drop(0)
        assert not partition.waiters
        partition.is_leader = True
        assert loading.loads.get(0) == "state 0"

    asyncio.run(scenario())


def test_a_load_that_waits_for_replicas_ends_with_the_topic() -> None:
    async def scenario() -> None:
        loading = Loading(3)
        [partition] = loading.partitions
        partition.log.log_end_offset = 5
        assert loading.code_of(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        partition.is_deleted = True
        partition.changes()
        assert not partition.waiters
        assert not loading.loads.loaded

    asyncio.run(scenario())
