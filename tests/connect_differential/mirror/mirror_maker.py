"""MirrorMaker 2's own classes, run by java/MirrorDriver.java in one JVM."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.testing.apache_kafka import KAFKA_VERSION
from penstock.testing.java import Artifact, JavaMissingError, fetch_jars, find_java

_SOURCE: Final = Path(__file__).parent / "java" / "MirrorDriver.java"
_TIMEOUT_S: Final = 600


def mirror_jars() -> Path:
    return fetch_jars(
        f"connect-mirror-{KAFKA_VERSION}", [Artifact("org.apache.kafka", "connect-mirror", KAFKA_VERSION)]
    )


def ask(requests: Sequence[Sequence[object]], directory: Path) -> list[list[str]]:
    """The answers to all requests, in their order."""
    runtime = find_java()
    if not runtime.has_compiler:
        raise JavaMissingError(f"{runtime.home} cannot compile: apt-get install default-jdk-headless")
    libraries = f"{mirror_jars()}/*"
    compiler = [str(runtime.java.with_name("javac")), "-cp", libraries, "-d", str(directory), str(_SOURCE)]
    compiled = subprocess.run(compiler, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert compiled.returncode == 0, compiled.stderr
    options = ["-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    class_path = f"{directory}{os.pathsep}{libraries}"
    done = subprocess.run(
        [str(runtime.java), *options, "-cp", class_path, "org.apache.kafka.connect.mirror.MirrorDriver"],
        input="".join("\t".join(map(str, request)) + "\n" for request in requests),
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]
