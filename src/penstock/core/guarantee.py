"""The delivery guarantees, by the names that users declare."""

from __future__ import annotations

from typing import Literal

Guarantee = Literal["at_most_once", "at_least_once", "exactly_once"]
