"""The terminal as a sink, as its author declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from penstock.pipeline.declaration.verdicts import BATCH_ID_FIRST, Kept, Refused
from penstock.pipeline.sinks.sink import Sink

if TYPE_CHECKING:
    from penstock.pipeline.sinks.sink_writer import SinkWriter


class ConsoleSink(Sink):
    """The terminal, to look at what a pipeline makes."""

    discriminator: ClassVar[str] = "console"
    spelling: ClassVar[str] = "{console: true}"
    guarantees: ClassVar = {
        "at_most_once": BATCH_ID_FIRST,
        "at_least_once": Kept("rows are shown before progress is recorded"),
        "exactly_once": Refused("what was shown on a terminal cannot be taken back; use at_least_once or another sink"),
    }

    console: Literal[True] = Field(description="Write the rows of every micro-batch to the terminal.")
    rows: int = Field(default=20, gt=0, description="The most rows to show of one micro-batch.")

    def writer(self) -> SinkWriter:
        from penstock.pipeline.sinks.console.writer import ConsoleSinkWriter

        return ConsoleSinkWriter(self)

    @property
    def identity(self) -> Mapping[str, str]:
        return {"console": "true"}

    @property
    def replaces_rows(self) -> bool:
        return True
