"""Kafka's own transforms and predicates, and Debezium's, run by java/TransformDriver.java in one JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.testing.apache_kafka import KAFKA_VERSION
from penstock.testing.java import Artifact, fetch_jars
from tests.java_driver import JavaDriver

_SOURCE: Final = Path(__file__).parent / "java" / "TransformDriver.java"
DEBEZIUM_VERSION: Final = "3.3.0.Final"


def transform_jars() -> Path:
    return fetch_jars(
        f"kafka-connect-and-debezium-transforms-{KAFKA_VERSION}",
        [
            Artifact("org.apache.kafka", "connect-transforms", KAFKA_VERSION),
            Artifact("org.apache.kafka", "connect-json", KAFKA_VERSION),
            Artifact("io.debezium", "debezium-core", DEBEZIUM_VERSION),
        ],
    )


class KafkaTransforms(JavaDriver):
    """A context manager that ends the JVM."""

    def __init__(self) -> None:
        options = ["-Xmx256M", "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"]
        super().__init__(_SOURCE, transform_jars(), options, niceness=19)

    def run(self, java_class: str, config: Mapping[str, str], records: Sequence[Any]) -> dict[str, Any]:
        """`results` for the records, or `refused` for the configuration."""
        return self._answer({"class": java_class, "config": config, "records": records})

    def definition(self, java_class: str) -> list[dict[str, Any]]:
        """Name, type, importance, required and default of each property."""
        keys: list[dict[str, Any]] = self._answer({"class": java_class, "config": {}, "definition": True})["definition"]
        return keys

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self.ask(request)
        assert "broken" not in result, f"the driver failed in {request['class']}:\n{result['broken']}"
        return result
