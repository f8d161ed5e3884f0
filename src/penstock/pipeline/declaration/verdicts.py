"""What a check of a declaration may come to: a guarantee that is kept or refused, a key that is refused.

Owns the vocabulary that sinks and sources share with the checks of a pipeline. It knows neither of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KeyPath = tuple[str | int, ...]
"""Where a key stands in a pipeline: ("sink", "options", "kafka.acks")."""

FALSE_WORDS: Final = ("false", "0", "no")
"""Spellings of false in options of Kafka and Spark."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The sink keeps the guarantee, and this is how."""

    how: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The sink cannot keep the guarantee; `why` gives the reason and the remedy."""

    why: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A well-formed declaration that cannot run: the key to change, and why."""

    path: KeyPath
    reason: str


BATCH_ID_FIRST: Final = Kept("the batch id is recorded before the batch is written; a replayed batch is skipped")
"""How every sink keeps at_most_once."""
