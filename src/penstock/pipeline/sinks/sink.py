"""A sink as the rest of a pipeline sees it: its settings, and what can be said of it before anything runs.

`Sink` is the declared half, a pydantic model of the keys that an author writes. It imports no Spark. `Sink.writer`
gives the half that runs (`sink_writer.py`). Each kind of sink is a package here with both halves, and one line in
`kinds.py`; nothing outside the package branches on the kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.kafka_endpoint import KafkaEndpoint
from penstock.pipeline.declaration.spec_values import Settings, SqlName
from penstock.pipeline.declaration.verdicts import Kept, Refusal, Refused

if TYPE_CHECKING:
    from penstock.pipeline.sinks.sink_writer import SinkWriter

OutputMode = Literal["append", "update", "complete"]


class Sink(Settings, ABC):
    """Where the rows of a pipeline go. A subclass adds the keys of its kind as fields."""

    discriminator: ClassVar[str]
    """The key that only this kind has, by which a mapping is recognised."""

    spelling: ClassVar[str]
    """How the kind is written, for messages: `{topic: ...}`."""

    guarantees: ClassVar[Mapping[Guarantee, Kept | Refused]]
    """How the kind keeps each guarantee, or why it cannot: the table that users are shown."""

    calls_functions: ClassVar[bool] = False
    """Whether the author's own Python code runs in it."""

    uses_databases: ClassVar[bool] = False
    """Whether Spark's Python processes should have the drivers of databases loaded before the first row."""

    rows_from: SqlName | None = Field(
        default=None,
        alias="from",
        description="Of several sinks: the source or step whose rows it gets. Without it: the last step.",
        examples=["cleaned"],
    )
    own_output_mode: OutputMode | None = Field(
        default=None,
        alias="output_mode",
        description="Of several sinks: the output mode of this one, if it is not the pipeline's.",
    )

    @abstractmethod
    def writer(self) -> SinkWriter:
        """The half that runs. Imports Spark."""

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """What it writes to and how, by key, in words that are stored with the checkpoint: progress fits only the same.

        The kind's discriminator is one of the keys. What may change between two starts (credentials, options, the name
        of a host, the place of a directory) is not part of it: there a sink recognises what it has written by itself,
        see `Checkpoint.check_place`.
        """

    def verdict(self, guarantee: Guarantee) -> Kept | Refused:
        return self.guarantees[guarantee]

    def refusals(self, guarantee: Guarantee) -> Iterable[Refusal]:
        """Settings of this sink that would break the guarantee. Paths begin with "sink"."""
        return ()

    def refused_output_mode(self, mode: OutputMode) -> str | None:
        """Why the sink cannot take rows in this output mode of Spark; None if it can."""
        return None

    @property
    def replaces_rows(self) -> bool:
        """Whether a row replaces an earlier one: then changed rows are written at once (update), not final ones."""
        return False

    def topics(self) -> Mapping[str, str]:
        """The topics that it writes, by the keys that name them."""
        return {}

    @property
    def kafka(self) -> KafkaEndpoint | None:
        """The brokers that it writes to; None if it writes to none."""
        return None

    def secrets(self) -> Iterator[str]:
        """Values of its settings that no message may show."""
        yield from ()

    def located(self, directory: Path) -> Self:
        """The same sink with relative locations made absolute."""
        return self
