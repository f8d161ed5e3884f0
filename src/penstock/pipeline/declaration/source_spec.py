"""Where the rows of a pipeline come from, as its author says it: topics, files, a table to join with.

Owns the keys of a source and which of them go together. It must never know how a source is read: `job.py` does that.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from penstock.pipeline.declaration.choice import choose_by_key
from penstock.pipeline.declaration.spec_values import (
    Columns,
    DatabaseUrl,
    Duration,
    Expression,
    Options,
    Scalar,
    Settings,
    Text,
    TopicName,
    TopicPattern,
    Topics,
    refused,
)

TopicFormat = Literal["json", "csv", "text", "binary"]
FileFormat = Literal["json", "csv", "text", "binary", "parquet"]
# The tags tell pydantic which of the two was meant, so that a typo in a word is not also reported as a bad mapping.
StartingOffsets = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("a word")]
    | Annotated[dict[TopicName, dict[str, int]], Tag("by partition")],
    Discriminator(lambda value: "a word" if isinstance(value, str) else "by partition"),
]
RecordField = Literal["key", "topic", "partition", "offset", "timestamp", "headers"]

# What a format yields when its author need not, or cannot, say.
FIXED_COLUMNS: Final = {
    ("topic", "text"): "value STRING",
    ("topic", "binary"): "key BINARY, value BINARY",
    ("files", "text"): "value STRING",
    ("files", "binary"): "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY",
}
RECORD_FIELD_TYPES: Final = {
    "key": "STRING",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
_OPTIONS_WITH_KEYS: Final = {
    "subscribe": "topic",
    "subscribepattern": "topic_pattern",
    "startingoffsets": "starting_offsets",
    "maxoffsetspertrigger": "max_offsets_per_trigger",
    "maxfilespertrigger": "max_files_per_trigger",
    "kafka.bootstrap.servers": "bootstrap_servers",
}


def _refuse_options_with_keys(options: dict[str, Any]) -> None:
    for name in options:
        own = _OPTIONS_WITH_KEYS.get(name.lower())
        if own is not None:
            raise refused(f"options.{name}", f"has a key of its own: {own}")


class _Stream(Settings):
    """What can be said of any source that goes on arriving."""

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

    def _check_event_time(self) -> None:
        if self.watermark is not None and self.timestamp is None:
            raise refused("watermark", "needs `timestamp`, the column with the event time")


class TopicSource(_Stream):
    """Records of one topic, of several, or of all whose names match a pattern."""

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
    starting_offsets: StartingOffsets = Field(
        default="earliest",
        description="Where the first start begins: earliest, latest, or an offset for each partition. Later starts go"
        " on where the last one committed.",
        examples=["latest", {"orders": {"0": 42, "1": 7}}],
    )
    max_offsets_per_trigger: int | None = Field(
        default=None, gt=0, description="The most records that one micro-batch takes."
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
        if ("topic", self.format) in FIXED_COLUMNS and self.declared_schema is not None:
            fixed = FIXED_COLUMNS["topic", self.format]
            raise refused("schema", f"format {self.format} has the columns {fixed}; take it out")
        _refuse_options_with_keys(self.options)
        self._check_event_time()
        return self

    @property
    def static(self) -> bool:
        return False

    def reads(self, topic: str) -> bool:
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return topic in (self.topic or ())

    @property
    def fails_on_data_loss(self) -> bool:
        """Whether records that are gone end the pipeline, as they do unless its author says otherwise."""
        told = [str(value).lower() for option, value in self.options.items() if option.lower() == "failondataloss"]
        return "false" not in told

    @property
    def columns(self) -> str | None:
        """The columns as DDL; None while they are not known."""
        columns = FIXED_COLUMNS.get(("topic", self.format), self.declared_schema)
        if columns is None:
            return None
        return ", ".join([columns, *(f"_{field} {RECORD_FIELD_TYPES[field]}" for field in self.include)])


class FileSource(_Stream):
    """Files of a directory, and those that arrive there later; or, with `static`, a table to join with."""

    files: Text = Field(description="A directory, a file or a glob; local, hdfs:// or s3a://.", examples=["incoming/"])
    format: FileFormat = Field(default="json", description="How a file becomes rows.")
    static: bool = Field(default=False, description="Read what is there as a table to join with, and wait for no more.")
    max_files_per_trigger: int | None = Field(
        default=None, gt=0, description="The most files that one micro-batch takes."
    )
    options: Options = Field(
        default_factory=dict, description="Any other option of Spark's file source.", examples=[{"cleanSource": "off"}]
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if ("files", self.format) in FIXED_COLUMNS and self.declared_schema is not None:
            fixed = FIXED_COLUMNS["files", self.format]
            raise refused("schema", f"format {self.format} has the columns {fixed}; take it out")
        if self.static and self.watermark is not None:
            raise refused("watermark", "a static source has no event time that moves; take it out")
        _refuse_options_with_keys(self.options)
        self._check_event_time()
        return self

    @property
    def columns(self) -> str | None:
        return FIXED_COLUMNS.get(("files", self.format), self.declared_schema)


class TableSource(Settings):
    """A table of a database, to join a stream with. It is read when the pipeline starts."""

    table: Text = Field(description="The table's name.", examples=["customers", "public.customers"])
    url: DatabaseUrl = Field(
        description="The database: sqlite or postgresql.",
        examples=["sqlite:///shop.db", "postgresql://penstock:${PGPASSWORD}@localhost/shop"],
    )
    declared_schema: Text | None = Field(
        default=None,
        alias="schema",
        description="The columns, as in CREATE TABLE; needed only for validate to check SQL without the database.",
    )

    @property
    def static(self) -> bool:
        return True

    @property
    def columns(self) -> str | None:
        return self.declared_schema


_CHOICE: Final = choose_by_key(
    {
        "topic": ("source by topic", TopicSource),
        "topic_pattern": ("source by topic", TopicSource),
        "files": ("source by files", FileSource),
        "table": ("source by table", TableSource),
    }
)
AnySource = TopicSource | FileSource | TableSource
Source = Annotated[
    Annotated[TopicSource, Tag("source by topic")]
    | Annotated[FileSource, Tag("source by files")]
    | Annotated[TableSource, Tag("source by table")],
    Discriminator(
        _CHOICE,
        custom_error_type="choice",
        custom_error_message="expected {topic: ...}, {files: ...} or {table: ..., url: ...}",
    ),
]
