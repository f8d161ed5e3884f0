"""Apache Kafka's own Java client, which the programs in java/ drive."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from penstock.testing.apache_kafka import kafka_jars
from penstock.testing.java import find_java
from tests.clients.interface import ClientMissingError
from tests.clients.json_lines_client import JsonLinesClient

_SOURCES = sorted((Path(__file__).parent / "java").glob("*.java"))
_COMPILE_TIMEOUT_S = 60


class JavaClient(JsonLinesClient):
    name = "java"
    has_none: ClassVar[Mapping[str, str]] = {
        "alter configs": "Kafka 4 removed the call: it has the incremental one only"
    }

    def __init__(self, bootstrap_servers: str) -> None:
        self._classes = tempfile.TemporaryDirectory(prefix="kafka-client-driver-")
        super().__init__(bootstrap_servers)

    def _program(self) -> tuple[list[str], dict[str, str]]:
        return compiled_command(Path(self._classes.name), "KafkaClientDriver"), dict(os.environ)

    def close(self) -> None:
        super().close()
        self._classes.cleanup()


def compiled_command(classes: Path, program: str) -> list[str]:
    """Compiles the programs in java/ into a directory; the command that runs one of them."""
    runtime = find_java()
    if not runtime.has_compiler:
        raise ClientMissingError(f"{runtime.home} cannot compile: apt-get install default-jdk-headless")
    libraries = f"{kafka_jars()}/*"
    compiler = [str(runtime.java.with_name("javac")), "-cp", libraries, "-d", str(classes)]
    done = subprocess.run([*compiler, *map(str, _SOURCES)], capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    class_path = f"{classes}{os.pathsep}{libraries}"
    return [str(runtime.java), "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", class_path, program]
