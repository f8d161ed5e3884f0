"""Kafka's own converters in a JVM, called with lists of requests (java/ConverterDriver.java).

Values travel as tagged texts that say their Java class: `tagged` makes them of ours.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.connect.converters.json.schemas import schema_to_json
from penstock.connect.converters.json.writing import JsonWriter
from penstock.connect.data import schema as schemas
from penstock.connect.data.schema import Schema, Type
from penstock.testing.apache_kafka import KAFKA_VERSION, LOG4J_VERSION
from penstock.testing.java import Artifact, fetch_jars
from tests.java_driver import JavaDriver

_SOURCE: Final = Path(__file__).parent / "java" / "ConverterDriver.java"
_MILLISECONDS_PER_DAY: Final = 86_400_000
_TAGS: Final = {Type.INT8: "b", Type.INT16: "s", Type.INT32: "i", Type.INT64: "l"}


class KafkaConverters(JavaDriver):
    """One JVM for a test session; a context manager that ends it."""

    def __init__(self) -> None:
        jars = fetch_jars(
            f"kafka-converters-{KAFKA_VERSION}",
            [
                Artifact("org.apache.kafka", "connect-json", KAFKA_VERSION),
                Artifact("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
                Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
            ],
        )
        super().__init__(_SOURCE, jars, ["-Xmx384M", "-Duser.timezone=UTC", "-Dlog4j2.level=OFF"], niceness=19)

    def call(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = self.ask(requests)
        return answers

    def to_connect(
        self, java_class: str, config: Mapping[str, str], payloads: Sequence[bytes | None], *, header: bool = False
    ) -> list[dict[str, Any]]:
        return self.call(
            [
                {
                    "call": "header_to" if header else "to",
                    "class": java_class,
                    "config": config,
                    "payload": None if payload is None else b64encode(payload).decode(),
                }
                for payload in payloads
            ]
        )

    def from_connect(
        self,
        java_class: str,
        config: Mapping[str, str],
        values: Sequence[tuple[Schema | None, Any]],
        *,
        header: bool = False,
    ) -> list[bytes | tuple[str, str] | None]:
        """Payloads, or class and message of an error."""
        answers = self.call(
            [
                {
                    "call": "header_from" if header else "from",
                    "class": java_class,
                    "config": config,
                    "schema": json_schema(schema),
                    "value": tagged(schema, value),
                }
                for schema, value in values
            ]
        )
        return [_payload(answer) for answer in answers]


def _payload(answer: Mapping[str, Any]) -> bytes | tuple[str, str] | None:
    if "error" in answer:
        return answer["error"], answer["message"]
    return None if answer["payload"] is None else b64decode(answer["payload"])


def json_schema(schema: Schema | None) -> Any:
    return json.loads(schema_to_json(schema, JsonWriter().default_text))


def tagged(schema: Schema | None, value: Any) -> Any:
    """A value in the base type of its schema, as the driver shows Java's."""
    match value:
        case None:
            return None
        case bool():
            return f"z{str(value).lower()}"
        case int():
            if schema is None:
                return f"l{value}"
            if schema.name in (schemas.DATE, schemas.TIME, schemas.TIMESTAMP):
                return f"T{value * _MILLISECONDS_PER_DAY if schema.name == schemas.DATE else value}"
            return f"{_TAGS[schema.type]}{value}"
        case float():
            if schema is not None and schema.type is Type.FLOAT32:
                return f"f{struct.unpack('>i', struct.pack('>f', value))[0]}"
            return f"d{struct.unpack('>q', struct.pack('>d', value))[0]}"
        case str():
            return f"t{value}"
        case bytes():
            if schema is not None and schema.name == schemas.DECIMAL:
                return f"D{int.from_bytes(value, 'big', signed=True)} {schema.parameter(schemas.DECIMAL_SCALE)}"
            return f"x{b64encode(value).decode()}"
        case dict() if schema is not None:
            return ["S", *(tagged(field.schema, value.get(field.name)) for field in schema.fields)]
        case dict():
            return ["M", *([tagged(None, name), tagged(None, member)] for name, member in value.items())]
        case list() if schema is not None and schema.type is Type.MAP:
            return ["M", *([tagged(schema.key_schema, k), tagged(schema.value_schema, v)] for k, v in value)]
    return ["L", *(tagged(None if schema is None else schema.value_schema, member) for member in value)]


def unordered(value: Any) -> Any:
    """Maps of Java have no order."""
    if not isinstance(value, list) or not value:
        return value
    members = [unordered(member) for member in value[1:]]
    return [unordered(value[0]), *(sorted(members, key=repr) if value[0] == "M" else members)]
