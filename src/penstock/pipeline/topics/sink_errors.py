"""What can go wrong while a batch is written to topics, told so that a supervisor knows what to do next.

Spark carries an error from its Python processes to the driver as text, so each kind that matters to a supervisor begins
with a condition in brackets, as Spark's own errors do; `kind_of` finds it in whatever Spark wrapped around it.

Invariant: `str(error)` is one line that a person can act upon. It never holds the value of a `kafka.*` option.
"""

from __future__ import annotations

import pickle
from typing import ClassVar, Final


class TopicSinkError(Exception):
    """Rows cannot be written to a topic, or not as asked for. Trying again would not help."""

    condition: ClassVar[str] = ""

    def __init__(self, message: str) -> None:
        super().__init__(f"[{self.condition}] {message}" if self.condition else message)
        self._message = message

    def __reduce__(self) -> tuple[type[TopicSinkError], tuple[str]]:
        return type(self), (self._message,)


class Fenced(TopicSinkError):
    """Another run writes under this transactional id now. This one has to stop for good."""

    condition = "PENSTOCK_SINK_FENCED"


class BatchInterrupted(TopicSinkError):
    """The batch's transaction cannot be finished. Nothing of it counts: run the batch again, it takes a new epoch."""

    condition = "PENSTOCK_BATCH_INTERRUPTED"


class BatchNotBegun(pickle.PicklingError):
    """Carries one of the others out of the pickling of a writer, where Spark lets no other exception through as it is.

    The text is that of the error inside.
    """


_KINDS: Final[tuple[type[TopicSinkError], ...]] = (Fenced, BatchInterrupted)


def kind_of(text: str) -> type[TopicSinkError] | None:
    """Which of the errors a supervisor has to tell apart a failed query's message speaks of; None: another one."""
    return next((kind for kind in _KINDS if f"[{kind.condition}]" in text), None)
