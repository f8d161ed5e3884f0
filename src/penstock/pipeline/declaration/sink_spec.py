"""Where the rows of a pipeline go, as its author says it: a topic, a table, files, the console, a Python function.

Owns the keys of a sink and which of them go together. It must never know how a sink is written (`sinks/`), nor which
guarantee it can keep (`guarantee.py`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from penstock.pipeline.declaration.choice import choose_by_key
from penstock.pipeline.declaration.spec_values import (
    Columns,
    DatabaseUrl,
    Expression,
    FunctionReference,
    Options,
    Settings,
    Text,
    TopicName,
    one_or_several,
    refused,
)

Key = Annotated[
    tuple[Expression, ...],
    Field(min_length=1),
    BeforeValidator(one_or_several, json_schema_input_type=str | list[str]),
]


class TopicSink(Settings):
    """Records of a topic."""

    topic: TopicName = Field(description="The topic; it is created if it is missing.", examples=["revenue"])
    format: Literal["json", "csv", "text", "binary"] = Field(
        default="json", description="How a row becomes a record's value. text and binary write one column: `value`."
    )
    key: Key | None = Field(
        default=None,
        description="The record's key: a column or SQL expression, as text; several make a JSON object.",
        examples=["customer", ["customer", "day"]],
    )
    value: Expression | None = Field(
        default=None,
        description="For text and binary, the column or expression to write, if it is not the column value.",
        examples=["concat(customer, ': ', revenue)"],
    )
    headers: dict[Text, Expression] = Field(
        default_factory=dict,
        description="Header names and the SQL expressions of their values.",
        examples=[{"region": "region", "schema": "'v2'"}],
    )
    partition: Expression | None = Field(
        default=None,
        description="A SQL expression for the partition's number. Without it: by the key, as Java's producer does.",
        examples=["customer_id % 8"],
    )
    bootstrap_servers: Text | None = Field(
        default=None, description="The brokers of this sink, if they are not the pipeline's."
    )
    options: Options = Field(
        default_factory=dict,
        description="Settings of a Kafka producer, as `kafka.*`.",
        examples=[{"kafka.compression.type": "zstd"}],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.value is not None and self.format in ("json", "csv"):
            raise refused(
                "value", f"format {self.format} writes all columns; SELECT those that you want, and remove it"
            )
        for name in self.options:
            if name.lower() == "kafka.bootstrap.servers":
                raise refused(f"options.{name}", "has a key of its own: bootstrap_servers")
            if name.lower() == "kafka.transactional.id":
                raise refused(f"options.{name}", "is the pipeline's own, made of its name; remove it")
        return self


def _derived_mode(earlier: dict[str, Any]) -> Literal["append", "upsert"]:
    return "upsert" if earlier.get("key") else "append"


class TableSink(Settings):
    """Rows of a database table, which is created when it is missing."""

    table: Text = Field(description="The table's name.", examples=["revenue", "public.revenue"])
    url: DatabaseUrl = Field(
        description="The database: sqlite or postgresql.",
        examples=["sqlite:///revenue.db", "postgresql://penstock:${PGPASSWORD}@localhost/shop"],
    )
    key: Columns | None = Field(
        default=None, description="For upsert, the columns that tell rows apart.", examples=[["customer"]]
    )
    mode: Literal["append", "upsert"] = Field(
        default_factory=_derived_mode,
        description="append adds rows; upsert replaces the row with the same `key`. Without it: upsert if there is a"
        " key, else append.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode == "upsert" and self.key is None:
            raise refused("key", "mode upsert replaces rows by key: name the columns, as in key: [id]")
        if self.mode == "append" and self.key is not None:
            raise refused("key", "mode append replaces nothing by key; remove it, or set mode: upsert")
        return self


class FileSink(Settings):
    """Files of a directory."""

    files: Text = Field(description="The directory; local, hdfs:// or s3a://.", examples=["out/"])
    format: Literal["parquet", "json", "csv"] = Field(default="parquet", description="The format of the files.")
    partition_by: Columns | None = Field(
        default=None, description="Columns whose values become directories.", examples=[["day"]]
    )
    options: Options = Field(
        default_factory=dict,
        description="Options of Spark's writer for the format.",
        examples=[{"compression": "zstd"}],
    )


class ConsoleSink(Settings):
    """The terminal, to look at what a pipeline makes."""

    console: Literal[True] = Field(description="Write the rows of every micro-batch to the terminal.")
    rows: int = Field(default=20, gt=0, description="The most rows to show of one micro-batch.")


class FunctionSink(Settings):
    """A Python function that is given every micro-batch as a DataFrame."""

    python: FunctionReference = Field(
        description="The function, called as function(dataframe, batch_id), or function(dataframe) if it takes one"
        " argument. Its module is looked for beside the pipeline's file first.",
        examples=["my_module:store"],
    )
    idempotent: bool = Field(
        default=False,
        description="Declares that calling the function again with the same batch id changes nothing. exactly_once"
        " needs it.",
    )


_CHOICE: Final = choose_by_key(
    {
        "topic": ("sink by topic", TopicSink),
        "table": ("sink by table", TableSink),
        "files": ("sink by files", FileSink),
        "console": ("sink by console", ConsoleSink),
        "python": ("sink by python", FunctionSink),
    }
)
AnySink = TopicSink | TableSink | FileSink | ConsoleSink | FunctionSink
Sink = Annotated[
    Annotated[TopicSink, Tag("sink by topic")]
    | Annotated[TableSink, Tag("sink by table")]
    | Annotated[FileSink, Tag("sink by files")]
    | Annotated[ConsoleSink, Tag("sink by console")]
    | Annotated[FunctionSink, Tag("sink by python")],
    Discriminator(
        _CHOICE,
        custom_error_type="choice",
        custom_error_message="expected {topic: ...}, {table: ..., url: ...}, {files: ...}, {console: true} or"
        " {python: ...}",
    ),
]
