"""Faults of a cluster: what happens, to whom, for how long, and how it ends.

Owns the choice of targets (leader, controller, coordinator, any) and the faults' beginnings and ends. It must not know
what clients do meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.testing.cluster import ETCD, Cluster


class Fault(Enum):
    KILL = "kill -9"
    POWER = "power failure, unsynced data lost"
    STOP = "controlled shutdown"
    PAUSE = "SIGSTOP"
    LONG_PAUSE = "SIGSTOP beyond the session timeout"
    ISOLATE = "cut off from peers and etcd"
    CUT = "two brokers cut"
    CUT_ONE_WAY = "two brokers cut one way"
    CUT_ETCD = "cut off from etcd"
    CUT_ETCD_ONE_WAY = "cut off from etcd one way"
    ETCD_KILL = "kill -9 of an etcd member"
    ETCD_PAUSE = "SIGSTOP of an etcd member"
    CLOCK = "clock an hour wrong"
    KILL_ALL = "kill -9 of all brokers"


class Target(Enum):
    LEADER = "leader"
    CONTROLLER = "controller"
    COORDINATOR = "coordinator"
    ANY = "any broker"


# How often each comes, of one round. A longer run is several rounds.
_ROUND: Final[dict[Fault, int]] = {
    Fault.KILL: 4,
    Fault.POWER: 2,
    Fault.STOP: 2,
    Fault.PAUSE: 1,
    Fault.LONG_PAUSE: 2,
    Fault.ISOLATE: 2,
    Fault.CUT: 1,
    Fault.CUT_ONE_WAY: 2,
    Fault.CUT_ETCD: 1,
    Fault.CUT_ETCD_ONE_WAY: 1,
    Fault.ETCD_KILL: 1,
    Fault.ETCD_PAUSE: 1,
    Fault.CLOCK: 1,
    Fault.KILL_ALL: 1,
}
_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Planned:
    fault: Fault
    target: Target
    lasts_s: float


def plan(count: int, seed: int, session_timeout_s: float) -> list[Planned]:
    """`count` faults: whole rounds in random order, and the beginning of one more."""
    chance = random.Random(seed)
    faults: list[Fault] = []
    while len(faults) < count:
        kinds = [fault for fault, times in _ROUND.items() for _ in range(times)]
        chance.shuffle(kinds)
        faults += kinds
    return [
        Planned(fault, chance.choice(list(Target)), _duration_s(fault, chance, session_timeout_s))
        for fault in faults[:count]
    ]


def _duration_s(fault: Fault, chance: random.Random, session_timeout_s: float) -> float:
    if fault in (Fault.LONG_PAUSE, Fault.ISOLATE, Fault.CUT_ETCD):
        return session_timeout_s * chance.uniform(1.2, 2.0)
    if fault in (Fault.STOP, Fault.CLOCK, Fault.PAUSE):
        return chance.uniform(0.1, 1.0)
    # Before and after the session ends: a broker that returns to leadership that it never lost, and one that lost it.
    return session_timeout_s * chance.uniform(0.1, 1.6)


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault that began: who it hit, and what undoes it."""

    what: str
    nodes: tuple[str, ...]
    heal: Callable[[], None]


class Faults:
    def __init__(self, cluster: Cluster, topic: str, group: str, seed: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._group = group
        self._chance = random.Random(seed ^ 0x5EED)

    def begin(self, planned: Planned) -> Hit:
        """Raises KeyError or a client's error while the cluster does not know the wanted target."""
        cluster, chance = self._cluster, self._chance
        fault = planned.fault
        if fault is Fault.KILL_ALL:
            for number in cluster.broker_ids:
                cluster.kill(number)
            return Hit(fault.value, tuple(map(str, cluster.broker_ids)), self._start_all)
        if fault in (Fault.ETCD_KILL, Fault.ETCD_PAUSE):
            return self._etcd(fault)
        number = self._target(planned.target)
        hit = (str(number),)
        match fault:
            case Fault.KILL:
                cluster.kill(number)
                return Hit(fault.value, hit, lambda: cluster.restart(number))
            case Fault.POWER:
                cluster.lose_unsynced(number)
                return Hit(fault.value, hit, lambda: cluster.restart(number))
            case Fault.STOP:
                cluster.stop(number)
                return Hit(fault.value, hit, lambda: cluster.restart(number))
            case Fault.PAUSE | Fault.LONG_PAUSE:
                cluster.pause(number)
                return Hit(fault.value, hit, lambda: cluster.resume(number))
            case Fault.ISOLATE:
                cluster.isolate(number)
            case Fault.CUT | Fault.CUT_ONE_WAY:
                other = chance.choice([each for each in cluster.broker_ids if each != number])
                pair = (number, other) if chance.random() < 0.5 else (other, number)
                cluster.partition(*pair, one_way=fault is Fault.CUT_ONE_WAY)
                return Hit(fault.value, tuple(map(str, pair)), cluster.heal)
            case Fault.CUT_ETCD:
                cluster.partition(number, ETCD)
            case Fault.CUT_ETCD_ONE_WAY if chance.random() < 0.5:
                cluster.partition(number, ETCD, one_way=True)
            case Fault.CUT_ETCD_ONE_WAY:
                cluster.partition(ETCD, number, one_way=True)
            case _:
                cluster.skew_clock(number, chance.choice([-_HOUR_S, _HOUR_S]))
                return Hit(fault.value, hit, lambda: cluster.skew_clock(number, 0))
        return Hit(fault.value, hit, cluster.heal)

    def _target(self, target: Target) -> int:
        seen = self._cluster.metadata()
        match target:
            case Target.LEADER:
                partitions = seen.topics[self._topic].partitions
                found = partitions[self._chance.choice(sorted(partitions))].leader_id
            case Target.CONTROLLER:
                found = seen.controller_id
            case Target.COORDINATOR:
                found = self._cluster.coordinator(self._group)
            case Target.ANY:
                found = -1
        return found if found > 0 else self._chance.choice(self._cluster.broker_ids)

    def _etcd(self, fault: Fault) -> Hit:
        etcd = self._cluster.etcd
        member = self._chance.choice(etcd.members)
        if fault is Fault.ETCD_KILL:
            etcd.kill(member)
            return Hit(fault.value, (f"etcd {member}",), lambda: etcd.start(member))
        etcd.pause(member)
        return Hit(fault.value, (f"etcd {member}",), lambda: etcd.resume(member))

    def _start_all(self) -> None:
        # One after another: a broker does not wait for the others.
        for number in self._cluster.broker_ids:
            self._cluster.restart(number)


def await_condition(reached: Callable[[], bool], timeout_s: float) -> bool:
    """False if it was not reached in time."""
    deadline = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
