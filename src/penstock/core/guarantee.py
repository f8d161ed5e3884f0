"""The delivery guarantees, in the words that users declare them with."""

from __future__ import annotations

from typing import Final, Literal

Guarantee = Literal["at_most_once", "at_least_once", "exactly_once"]

GUARANTEES: Final[tuple[Guarantee, ...]] = ("at_most_once", "at_least_once", "exactly_once")
