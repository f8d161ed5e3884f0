"""Fetches jars by their Maven coordinates, for the Java that `penstock.pipeline.spark.java` finds.

Owns the cache of jars. It must not know what the jars are for.

Invariant: a jar directory under its final name is complete: Maven fills a temporary directory, which is then renamed,
so two processes may fetch the same jars concurrently.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from penstock.pipeline.spark.java import JavaMissingError, JavaRuntime, cache_dir, find_java, parse_java_version

__all__ = [
    "Artifact",
    "JavaMissingError",
    "JavaRuntime",
    "cache_dir",
    "fetch_jars",
    "find_java",
    "parse_java_version",
]

_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_FETCH_TIMEOUT_S: Final = 600


@dataclass(frozen=True, slots=True)
class Artifact:
    """Maven coordinates. `alone` excludes the dependencies of the artifact."""

    group: str
    name: str
    version: str
    alone: bool = False


def fetch_jars(name: str, artifacts: Sequence[Artifact]) -> Path:
    """The directory with the jars of these artifacts and their dependencies; Maven runs at the first call only."""
    pom = _pom(artifacts)
    target = cache_dir() / f"{name}-{hashlib.sha256(pom.encode()).hexdigest()[:8]}"
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaMissingError(f"Maven is not installed, which fetches the jars of {name}: apt-get install maven")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as scratch:
        pom_file = Path(scratch) / "pom.xml"
        pom_file.write_text(pom, encoding="utf-8")
        jars = Path(scratch) / "jars"
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom_file), f"{_DEPENDENCY_PLUGIN}:copy-dependencies"]
        command += [f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        fetched = subprocess.run(
            command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False, env=_maven_environment()
        )
        if fetched.returncode != 0:
            raise JavaMissingError(f"Maven could not fetch the jars of {name}:\n{fetched.stdout}{fetched.stderr}")
        try:
            jars.rename(target)
        except OSError:
            # Another process was faster; its directory is complete too.
            if not target.is_dir():
                raise
    return target


def _maven_environment() -> dict[str, str]:
    # Maven finds the machine's Java; a runtime inside a Python package needs JAVA_HOME.
    environment = dict(os.environ)
    if "JAVA_HOME" not in environment and shutil.which("java") is None:
        environment["JAVA_HOME"] = str(find_java().home)
    return environment


def _pom(artifacts: Sequence[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{escape(artifact.group)}</groupId><artifactId>{escape(artifact.name)}</artifactId>"
        f"<version>{escape(artifact.version)}</version>"
        + (
            "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
            if artifact.alone
            else ""
        )
        + "</dependency>\n"
        for artifact in artifacts
    )
    return (
        "<project>\n<modelVersion>4.0.0</modelVersion>\n"
        "<groupId>penstock</groupId><artifactId>fetched-jars</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )
