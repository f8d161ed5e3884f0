"""MirrorMaker 2's own classes, run by java/MirrorDriver.java in one JVM."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.testing.apache_kafka import KAFKA_VERSION
from penstock.testing.java import Artifact, fetch_jars, find_java
from tests.java_driver import compiled

_SOURCE: Final = Path(__file__).parent / "java" / "MirrorDriver.java"
_TIMEOUT_S: Final = 600


def mirror_jars() -> Path:
    return fetch_jars(
        f"connect-mirror-{KAFKA_VERSION}", [Artifact("org.apache.kafka", "connect-mirror", KAFKA_VERSION)]
    )


def ask(requests: Sequence[Sequence[object]], directory: Path) -> list[list[str]]:
    """The answers to all requests, in their order."""
    class_path = compiled(_SOURCE, mirror_jars(), directory)
    options = ["-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    done = subprocess.run(
        [str(find_java().java), *options, "-cp", class_path, "org.apache.kafka.connect.mirror.MirrorDriver"],
        input="".join("\t".join(map(str, request)) + "\n" for request in requests),
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]
