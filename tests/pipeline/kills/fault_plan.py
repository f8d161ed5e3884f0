"""Which processes a soak kills, where, and in which order: a seed repeats the plan."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

_T = TypeVar("_T")
Victim = Literal["driver and JVM", "driver", "JVM", "worker", "broker", "database"]
_OF_THE_DRIVER: tuple[Victim, ...] = ("driver and JVM", "driver and JVM", "driver and JVM", "driver", "JVM")


@dataclass(frozen=True, slots=True)
class Fault:
    """One kill. With a step, when that is reached; else after `after_s`.

    `early`: from the moment on in which the driver's JVM is there, which is before the first batch, and so also while
    a batch is replayed. Otherwise when a batch has passed.
    """

    victim: Victim
    step: str | None
    early: bool
    after_s: float
    down_s: float  # how long a server stays away

    @property
    def ends_the_driver(self) -> bool:
        return self.victim in _OF_THE_DRIVER


def exactly_once_plan(steps: Sequence[str], servers: Sequence[Victim], kills: int, seed: int) -> list[Fault]:
    """Half of the kills are of drivers, the others of workers and servers in turn; two of three are at named steps.

    Every step is used with every kind of victim before one is used again.
    """
    chance = random.Random(seed)
    others: list[Victim] = ["worker", *servers]
    drivers = _cycled(_OF_THE_DRIVER, chance)
    bystanders = _cycled(others, chance)
    steps_of = {victim: _cycled(steps, chance) for victim in ("driver", *others)}
    plan = []
    for number in range(kills):
        victim = next(drivers) if number % 2 == 0 else next(bystanders)
        kind = "driver" if victim in _OF_THE_DRIVER else victim
        step = next(steps_of[kind]) if number % 3 != 2 else None
        plan.append(_fault(victim, step, chance))
    return plan


def weaker_plan(window: str, servers: Sequence[Victim], kills: int, seed: int) -> list[Fault]:
    """Drivers are killed in the window in which the guarantee shows, so that it does; others at random moments."""
    chance = random.Random(seed)
    others = _cycled(["worker", *servers], chance)
    return [
        _fault("driver and JVM", window, chance) if number % 2 == 0 else _fault(next(others), None, chance)
        for number in range(kills)
    ]


def _fault(victim: Victim, step: str | None, chance: random.Random) -> Fault:
    early = chance.random() < 0.5
    # A start takes some seconds, a batch a fraction of one.
    after_s = chance.uniform(0.0, 8.0 if early and victim in _OF_THE_DRIVER else 1.5)
    return Fault(victim, step, early, after_s, chance.choice((0.0, chance.uniform(0.0, 3.0))))


def _cycled(values: Sequence[_T], chance: random.Random) -> Iterator[_T]:
    """Each of the values once in every round, in an order of chance."""
    while True:
        yield from chance.sample(values, len(values))
