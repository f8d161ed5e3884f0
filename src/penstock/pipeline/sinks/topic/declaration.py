"""A topic as a sink, as its author declares it: the keys, and the guarantees of a Kafka producer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.kafka_endpoint import KafkaEndpoint
from penstock.pipeline.declaration.redaction import secrets_in_options
from penstock.pipeline.declaration.spec_values import Expression, Options, Text, TopicName, one_or_several, refused
from penstock.pipeline.declaration.verdicts import BATCH_ID_FIRST, FALSE_WORDS, Kept, KeyPath, Refusal
from penstock.pipeline.sinks.sink import Sink

if TYPE_CHECKING:
    from penstock.pipeline.sinks.sink_writer import SinkWriter

Key = Annotated[
    tuple[Expression, ...],
    Field(min_length=1),
    BeforeValidator(one_or_several, json_schema_input_type=str | list[str]),
]
_ALL_REPLICAS: Final = ("all", "-1")


class TopicSink(Sink):
    """Records of a topic."""

    discriminator: ClassVar[str] = "topic"
    spelling: ClassVar[str] = "{topic: ...}"
    guarantees: ClassVar = {
        "at_most_once": BATCH_ID_FIRST,
        "at_least_once": Kept("records are acknowledged before progress is recorded"),
        "exactly_once": Kept("one Kafka transaction holds the records, the dead letters and the batch id"),
    }

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
    delete_when: Expression | None = Field(
        default=None,
        description="A SQL condition: a row that meets it becomes a tombstone, a record with the key and no value. The"
        " name of a boolean column is enough; such a column is not part of the value.",
        examples=["_tombstone", "op = 'd'"],
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
        if self.delete_when is not None and self.key is None:
            raise refused("delete_when", "a tombstone deletes by key: name the record's key, as in key: id")
        for name in self.options:
            if name.lower() == "kafka.bootstrap.servers":
                raise refused(f"options.{name}", "has a key of its own: bootstrap_servers")
            if name.lower() == "kafka.transactional.id":
                raise refused(f"options.{name}", "is the pipeline's own, made of its name; remove it")
        return self

    def writer(self) -> SinkWriter:
        from penstock.pipeline.sinks.topic.writer import TopicSinkWriter

        return TopicSinkWriter(self)

    @property
    def identity(self) -> Mapping[str, str]:
        return {"topic": self.topic}

    def refusals(self, guarantee: Guarantee) -> Iterator[Refusal]:
        if guarantee == "at_most_once":
            return
        for option, value in self.options.items():
            setting = str(value).lower()
            at: KeyPath = ("sink", "options", option)
            if option.lower() == "kafka.acks" and setting not in _ALL_REPLICAS:
                yield Refusal(at, f"a record may be lost unless all in-sync replicas have it; {guarantee} needs all")
            if option.lower() == "kafka.enable.idempotence" and setting in FALSE_WORDS and guarantee == "exactly_once":
                yield Refusal(at, "a retry may write twice; exactly_once needs it on")

    def topics(self) -> Mapping[str, str]:
        return {"sink.topic": self.topic}

    @property
    def kafka(self) -> KafkaEndpoint:
        return KafkaEndpoint(self.bootstrap_servers, self.options)

    def secrets(self) -> Iterator[str]:
        return secrets_in_options(self.options)
