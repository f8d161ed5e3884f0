"""Apache Kafka's own Java client, which java/KafkaClientDriver.java drives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from penstock.testing.apache_kafka import kafka_jars
from penstock.testing.java import find_java
from tests.clients.interface import ClientMissingError
from tests.clients.json_lines_client import JsonLinesClient

_DRIVER = Path(__file__).parent / "java" / "KafkaClientDriver.java"


class JavaClient(JsonLinesClient):
    name = "java"
    has_none: ClassVar[Mapping[str, str]] = {
        "alter configs": "Kafka 4 removed the call: it has the incremental one only"
    }

    def _program(self) -> tuple[list[str], dict[str, str]]:
        runtime = find_java()
        if not runtime.has_compiler:
            raise ClientMissingError(f"{runtime.home} cannot compile: apt-get install default-jdk-headless")
        command = [str(runtime.java), "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*", str(_DRIVER)]
        return command, dict(os.environ)
