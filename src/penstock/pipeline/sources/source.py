"""A source as the rest of a pipeline sees it: its settings, and what can be said of it before anything runs.

`Source` is the declared half, a pydantic model of the keys that an author writes. It imports no Spark. `Source.reader`
gives the half that runs (`source_reader.py`). Each kind of source is a package here with both halves, and one line in
`kinds.py`; nothing outside the package branches on the kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import Field

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.kafka_endpoint import KafkaEndpoint
from penstock.pipeline.declaration.spec_values import Columns, Duration, Expression, Scalar, Settings, Text, refused
from penstock.pipeline.declaration.verdicts import Refusal

if TYPE_CHECKING:
    from penstock.pipeline.sources.source_reader import SourceReader

_OPTIONS_WITH_KEYS: Final = {
    "subscribe": "topic",
    "subscribepattern": "topic_pattern",
    "startingoffsets": "starting_offsets",
    "maxoffsetspertrigger": "max_offsets_per_trigger",
    "maxfilespertrigger": "max_files_per_trigger",
    "kafka.bootstrap.servers": "bootstrap_servers",
}


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time of a source and what follows from it."""

    column: str | None = None
    watermark: str | None = None
    dedupe: tuple[str, ...] = ()


class Source(Settings, ABC):
    """Where rows of a pipeline come from. A subclass adds the keys of its kind as fields."""

    discriminators: ClassVar[tuple[str, ...]]
    """The keys that only this kind has, by which a mapping is recognised."""

    spelling: ClassVar[str]
    """How the kind is written, for messages: `{topic: ...}`."""

    checks_rows: ClassVar[bool] = True
    """Whether rows are checked one by one, so that `expect` has a meaning."""

    @abstractmethod
    def reader(self) -> SourceReader:
        """The half that runs. Imports Spark."""

    @property
    @abstractmethod
    def is_static(self) -> bool:
        """Whether it is read once, as a table to join with, and not as a stream."""

    @property
    @abstractmethod
    def columns(self) -> str | None:
        """The columns as DDL; None while they are not known."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What it reads, in words that are stored with the checkpoint: positions fit only the same."""

    @property
    def expectations(self) -> Mapping[str, str]:
        """Conditions that every row must meet, by rule name."""
        return {}

    def with_expectations(self, expectations: Mapping[str, str]) -> Self:
        return self.model_copy(update={"expect": dict(expectations)}) if self.checks_rows else self

    @property
    def event_time(self) -> EventTime:
        return EventTime()

    @property
    def kafka(self) -> KafkaEndpoint | None:
        """The brokers that it reads from; None if it reads from none."""
        return None

    @property
    def named_topics(self) -> tuple[str, ...]:
        """Topics that must exist before a start."""
        return ()

    def reads(self, topic: str) -> bool:
        return False

    @property
    def fails_on_data_loss(self) -> bool:
        """Whether lost records end the pipeline."""
        return True

    def refusals(self, guarantee: Guarantee) -> Iterable[Refusal]:
        """Settings of this source that would break the guarantee. Paths begin below the source."""
        return ()

    def secrets(self) -> Iterator[str]:
        """Values of its settings that no message may show."""
        yield from ()

    def located(self, directory: Path) -> Self:
        """The same source with relative locations made absolute."""
        return self


class StreamSource(Source):
    """A source whose values are parsed, and that may be a stream."""

    declared_schema: Text | None = Field(
        default=None,
        alias="schema",
        description="The columns, as in CREATE TABLE. Without it they are inferred from a sample at the first start and"
        " stored with the checkpoint, so that later starts read the same columns.",
        examples=["id BIGINT, customer STRING, amount DOUBLE"],
    )
    format_options: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Options of Spark's reader for the format.",
        examples=[{"sep": ";", "timestampFormat": "yyyy-MM-dd HH:mm:ss"}],
    )
    timestamp: Text | None = Field(
        default=None, description="The column with the event time; a TIMESTAMP.", examples=["ordered_at"]
    )
    watermark: Duration | None = Field(
        default=None,
        description="How late rows may come, by `timestamp`. State for what is older is dropped, and rows older than"
        " that no longer count.",
        examples=["10 minutes"],
    )
    dedupe: Columns | None = Field(
        default=None,
        description="Columns that tell rows apart; a row that repeats them is dropped. With `watermark`, they are"
        " remembered for that long, otherwise for ever.",
        examples=[["id"]],
    )
    expect: dict[Text, Expression] = Field(
        default_factory=dict,
        description="Rule names and the SQL conditions that every row must meet; NULL is not met. `on_error` says what"
        " happens to a row that does not.",
        examples=[{"positive amount": "amount > 0"}],
    )

    @property
    def expectations(self) -> Mapping[str, str]:
        return self.expect

    @property
    def event_time(self) -> EventTime:
        return EventTime(self.timestamp, self.watermark, self.dedupe or ())

    def check_stream(self, format_name: str, fixed_columns: Mapping[str, str], options: Mapping[str, Any]) -> None:
        """For validators of subclasses: what holds between the keys of any stream."""
        if format_name in fixed_columns and self.declared_schema is not None:
            fixed = fixed_columns[format_name]
            raise refused("schema", f"format {format_name} has the columns {fixed}; take it out")
        for name in options:
            own = _OPTIONS_WITH_KEYS.get(name.lower())
            if own is not None:
                raise refused(f"options.{name}", f"has a key of its own: {own}")
        if self.watermark is not None and self.timestamp is None:
            raise refused("watermark", "needs `timestamp`, the column with the event time")
