"""Kafka's own transforms and predicates, and Debezium's, run by java/TransformDriver.java in one JVM."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from penstock.testing.apache_kafka import KAFKA_VERSION
from penstock.testing.java import Artifact, JavaMissingError, fetch_jars, find_java

_SOURCE: Final = Path(__file__).parent / "java" / "TransformDriver.java"
_COMPILE_TIMEOUT_S: Final = 120
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


class KafkaTransforms:
    """A context manager that ends the JVM."""

    def __init__(self) -> None:
        self._classes = tempfile.TemporaryDirectory(prefix="transform-driver-")
        runtime = find_java()
        if not runtime.has_compiler:
            raise JavaMissingError(f"{runtime.home} cannot compile: apt-get install default-jdk-headless")
        libraries = f"{transform_jars()}/*"
        compiler = [str(runtime.java.with_name("javac")), "-cp", libraries, "-d", self._classes.name, str(_SOURCE)]
        compiled = subprocess.run(compiler, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
        assert compiled.returncode == 0, compiled.stderr
        class_path = f"{self._classes.name}{os.pathsep}{libraries}"
        options = [
            "-Xmx256M",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Duser.timezone=UTC",
            "-Duser.language=en",
        ]
        self._process = subprocess.Popen(
            [
                "nice",
                "-n",
                "19",
                str(runtime.java),
                *options,
                "-Duser.country=US",
                "-cp",
                class_path,
                "TransformDriver",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # the driver ends when its input does
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._classes.cleanup()

    def run(self, java_class: str, config: Mapping[str, str], records: Sequence[Any]) -> dict[str, Any]:
        """`results` for the records, or `refused` for the configuration."""
        return self._answer({"class": java_class, "config": config, "records": records})

    def definition(self, java_class: str) -> list[dict[str, Any]]:
        """Name, type, importance, required and default of each property."""
        keys: list[dict[str, Any]] = self._answer({"class": java_class, "config": {}, "definition": True})["definition"]
        return keys

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the JVM ended in {request['class']} with {request['config']}"
        result: dict[str, Any] = json.loads(answer)
        assert "broken" not in result, f"the driver failed in {request['class']}:\n{result['broken']}"
        return result
