"""Partitions of a coordinator's topic on their way into memory, a bounded slice in each turn of the event loop.

A coordinator asks for the state of a partition. The first request starts to load it; as much as one turn allows is
loaded at once, so a small partition is there when the call returns. A larger one goes on in later turns, and requests
are answered COORDINATOR_LOAD_IN_PROGRESS until it is there: clients retry by themselves, and every other client of the
broker is served between two slices.

What was read counts when the in-sync replicas hold it too: a new leader may have records that the next leader lacks,
and must neither show them nor write the markers of a transaction that they decide.

Owns: which partitions are loaded, being loaded or failed, and the budget of a turn.
Must not know: what a coordinator keeps in memory, and what its records mean.

Invariant: all slices of one turn together stay within the limits, however many partitions are asked for.
Invariant: a state is visible only when its partition is loaded whole and the high watermark has reached the end of
what was read, so nothing is appended for it before that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.core import limits
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.core.metrics import Histogram

logger = logging.getLogger(__name__)

State = TypeVar("State")

# Yields the bytes of each record as it is replayed, 0 for any other unit of work, and returns the loaded state.
LoadSteps = Generator[int, None, State]


class _Load(Generic[State]):
    """A partition that is being read, or was read and waits for its replicas: `Waiter` of the partition then."""

    __slots__ = ("_on_progress", "began_s", "leader_epoch", "partition", "steps", "unconfirmed")

    def __init__(
        self, partition: Partition, steps: LoadSteps[State], began_s: float, on_progress: Callable[[], None]
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.steps = steps
        self.began_s = began_s
        self.unconfirmed: tuple[State, int] | None = None  # what was read, and the end of it
        self._on_progress = on_progress

    def await_replicas(self, state: State, end_offset: int) -> None:
        self.unconfirmed = state, end_offset
        self.partition.add_waiter(self)

    def records_arrived(self, new_bytes: int) -> None:
        """The partition has another high watermark or role, or was deleted."""
        self._on_progress()

    def close(self) -> None:
        self.steps.close()
        self.partition.remove_waiter(self)


class CoordinatorLoads(Generic[State]):
    """Belongs to the event loop. `begin` makes the steps of a partition's load, `on_loaded` gets the result."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        find_partition: Callable[[int], Partition],
        begin: Callable[[int], LoadSteps[State]],
        on_loaded: Callable[[int, State], None],
        load_time: Histogram,
    ) -> None:
        self._loop = loop
        self._find_partition = find_partition
        self._begin = begin
        self._on_loaded = on_loaded
        self._load_time = load_time
        self._loaded: dict[int, State] = {}
        self._loads: dict[int, _Load[State]] = {}  # in the order in which they were asked for
        self._failures: dict[int, BrokerError] = {}  # of loads that failed in a later turn, until the next request
        self._records_left = limits.COORDINATOR_LOAD_RECORDS_PER_TURN
        self._bytes_left = limits.COORDINATOR_LOAD_BYTES_PER_TURN
        self._turn: asyncio.Handle | None = None

    @property
    def loaded(self) -> Mapping[int, State]:
        return self._loaded

    def is_loading(self, index: int) -> bool:
        return index in self._loads

    def get(self, index: int) -> State:
        """The partition's state. COORDINATOR_LOAD_IN_PROGRESS until it is loaded; the reason if it cannot be."""
        state = self._loaded.get(index)
        if state is None:
            if index not in self._loads:
                self._start(index)
            state = self._loaded.get(index)
            if state is None:
                raise BrokerError(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._find_partition(index)} is being loaded."
                )
        return state

    def get_all(self, indexes: Iterable[int]) -> list[State]:
        """The state of each partition, or the first error; all of them are loaded in either case."""
        states: list[State] = []
        failure: BrokerError | None = None
        for index in indexes:
            try:
                states.append(self.get(index))
            except BrokerError as error:
                failure = failure or error.to_keep()
        if failure is not None:
            raise failure
        return states

    def discard(self, index: int, state: State) -> bool:
        """Forgets a state that must be loaded again; False where it is not the current one."""
        if self._loaded.get(index) is not state:
            return False
        del self._loaded[index]
        return True

    def drop(self, index: int) -> None:
        """Forgets a partition, loaded or not: another broker leads it now."""
        load = self._loads.pop(index, None)
        if load is not None:
            load.close()
        self._loaded.pop(index, None)
        self._failures.pop(index, None)

    def clear(self) -> None:
        """Forgets everything: the topic is gone, or the broker stops."""
        for load in self._loads.values():
            load.close()
        self._loads.clear()
        self._loaded.clear()
        self._failures.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _start(self, index: int) -> None:
        failure = self._failures.pop(index, None)
        if failure is not None:
            # Told once; the next request tries again.
            raise failure
        self._loads[index] = _Load(
            self._find_partition(index), self._begin(index), perf_counter(), partial(self._replicas_moved, index)
        )
        self._schedule_turn()
        self._load_slice(index)

    def _schedule_turn(self) -> None:
        if self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        self._records_left = limits.COORDINATOR_LOAD_RECORDS_PER_TURN
        self._bytes_left = limits.COORDINATOR_LOAD_BYTES_PER_TURN
        for index in self._being_read():
            if not self._has_budget:
                break
            if index in self._loads:
                try:
                    self._load_slice(index)
                except BrokerError as error:
                    self._failures[index] = error.to_keep()
        if self._being_read():
            self._schedule_turn()

    def _being_read(self) -> list[int]:
        return [index for index, load in self._loads.items() if load.unconfirmed is None]

    @property
    def _has_budget(self) -> bool:
        return self._records_left > 0 and self._bytes_left > 0

    def _load_slice(self, index: int) -> None:
        """Loads until the budget of this turn is used up or the partition is loaded. BrokerError: it cannot be."""
        load = self._loads[index]
        try:
            if load.partition.is_deleted:
                raise BrokerError(ErrorCode.NOT_COORDINATOR, f"{load.partition} was deleted while it was being loaded.")
            while self._has_budget:
                self._bytes_left -= next(load.steps)
                self._records_left -= 1
        except StopIteration as end:
            end_offset = load.partition.log.log_end_offset
            if load.partition.high_watermark < end_offset:
                load.await_replicas(end.value, end_offset)
            else:
                self._confirmed(index, load, end.value)
        except BrokerError as error:
            del self._loads[index]
            logger.error("%s cannot be loaded: %s", load.partition, error.message)
            raise

    def _replicas_moved(self, index: int) -> None:
        load = self._loads[index]
        assert load.unconfirmed is not None, "a load waits when it has read everything"
        state, end_offset = load.unconfirmed
        partition = load.partition
        if partition.is_deleted:
            self.drop(index)
            return
        # In another leader epoch the coordinator resigns from the partition, and drops the load.
        is_same_role = partition.is_leader and partition.leader_epoch == load.leader_epoch
        if is_same_role and partition.high_watermark >= end_offset:
            partition.remove_waiter(load)
            self._confirmed(index, load, state)

    def _confirmed(self, index: int, load: _Load[State], state: State) -> None:
        del self._loads[index]
        self._loaded[index] = state
        self._load_time.observe(perf_counter() - load.began_s)
        self._on_loaded(index, state)
