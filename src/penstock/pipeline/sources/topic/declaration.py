"""Topics as a source, as their author declares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.kafka_endpoint import KafkaEndpoint
from penstock.pipeline.declaration.redaction import secrets_in_options
from penstock.pipeline.declaration.spec_values import Options, Text, TopicName, TopicPattern, Topics, refused
from penstock.pipeline.declaration.verdicts import FALSE_WORDS, Refusal
from penstock.pipeline.sources.source import StreamSource

if TYPE_CHECKING:
    from penstock.pipeline.sources.source_reader import SourceReader

TopicFormat = Literal["json", "csv", "text", "binary"]
# The tags tell pydantic which of the two was meant, so that a typo in a word is not also reported as a bad mapping.
StartingOffsets = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("a word")]
    | Annotated[dict[TopicName, dict[str, int]], Tag("by partition")],
    Discriminator(lambda value: "a word" if isinstance(value, str) else "by partition"),
]
RecordField = Literal["key", "topic", "partition", "offset", "timestamp", "headers"]

# What a format yields when its author need not, or cannot, say.
_FIXED_COLUMNS: Final = {"text": "value STRING", "binary": "key BINARY, value BINARY"}
TOMBSTONE: Final = "_tombstone"
RECORD_FIELD_TYPES: Final = {
    "key": "STRING",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}


class TopicSource(StreamSource):
    """Records of one topic, of several, or of all whose names match a pattern."""

    discriminators: ClassVar[tuple[str, ...]] = ("topic", "topic_pattern")
    spelling: ClassVar[str] = "{topic: ...}"

    topic: Topics | None = Field(
        default=None, description="A topic, or a list of topics.", examples=["orders", ["orders-eu", "orders-us"]]
    )
    topic_pattern: TopicPattern | None = Field(
        default=None,
        description="A regular expression; topics that match it are read, also those that are created later.",
        examples=["orders-.*"],
    )
    format: TopicFormat = Field(
        default="json",
        description="How a record's value becomes columns. text: one column, value. binary: key and value as they are.",
    )
    include: tuple[RecordField, ...] = Field(
        default=(),
        description="Fields of the record to add as columns, with an underscore before their names.",
        examples=[["key", "timestamp"]],
    )
    tombstones: Literal["bad", "keep"] = Field(
        default="bad",
        description="What a record without a value is. bad: a bad row. keep: a row whose columns are NULL and whose"
        " column _tombstone is true; `include: [key]` says what it deletes.",
    )
    starting_offsets: StartingOffsets = Field(
        default="earliest",
        description="Where the first start begins: earliest, latest, or an offset for each partition. Later starts go"
        " on where the last one committed.",
        examples=["latest", {"orders": {"0": 42, "1": 7}}],
    )
    max_offsets_per_trigger: int | None = Field(
        default=None,
        gt=0,
        description="The most records that one micro-batch takes. Default: 200,000 in the first one of a backlog, then"
        " as many as take about ten seconds.",
    )
    bootstrap_servers: Text | None = Field(
        default=None, description="The brokers of this source, if they are not the pipeline's."
    )
    options: Options = Field(
        default_factory=dict,
        description="Any other option of Spark's Kafka source, and any setting of a Kafka consumer as `kafka.*`.",
        examples=[{"minPartitions": 8, "kafka.security.protocol": "SASL_SSL"}],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.topic is None) == (self.topic_pattern is None):
            raise refused("topic_pattern" if self.topic else "topic", "give either topic or topic_pattern")
        self.check_stream(self.format, _FIXED_COLUMNS, self.options)
        return self

    def reader(self) -> SourceReader:
        from penstock.pipeline.sources.topic.reader import TopicSourceReader

        return TopicSourceReader(self)

    @property
    def is_static(self) -> bool:
        return False

    @property
    def columns(self) -> str | None:
        columns = _FIXED_COLUMNS.get(self.format, self.declared_schema)
        if columns is None:
            return None
        added = [f"_{field} {RECORD_FIELD_TYPES[field]}" for field in self.include]
        return ", ".join([columns, *added, *([f"{TOMBSTONE} BOOLEAN"] if self.tombstones == "keep" else [])])

    @property
    def identity(self) -> str:
        if self.topic_pattern is not None:
            return f"pattern {self.topic_pattern}"
        return f"topic {','.join(sorted(self.named_topics))}"

    @property
    def kafka(self) -> KafkaEndpoint:
        return KafkaEndpoint(self.bootstrap_servers, self.options)

    @property
    def named_topics(self) -> tuple[str, ...]:
        return self.topic or ()

    def reads(self, topic: str) -> bool:
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return topic in self.named_topics

    @property
    def fails_on_data_loss(self) -> bool:
        given = [str(value).lower() for option, value in self.options.items() if option.lower() == "failondataloss"]
        return "false" not in given

    def refusals(self, guarantee: Guarantee) -> Iterator[Refusal]:
        for option, value in self.options.items():
            setting = str(value).lower()
            if option.lower() == "failondataloss" and setting in FALSE_WORDS and guarantee != "at_most_once":
                yield Refusal(
                    ("options", option),
                    f"skips records that are gone, and {guarantee} may not; remove it, or use at_most_once",
                )
            if (option.lower(), setting, guarantee) == ("kafka.isolation.level", "read_uncommitted", "exactly_once"):
                yield Refusal(
                    ("options", option),
                    "would read what a transaction takes back; exactly_once needs read_committed",
                )

    def secrets(self) -> Iterator[str]:
        return secrets_in_options(self.options)
