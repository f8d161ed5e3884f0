"""Jars fetched by their Maven coordinates, for the Java that `penstock.pipeline.spark.java` finds.

Owns the cache of jars. It must never know what the jars are for.

Invariant: a jar directory that exists under its final name is complete: Maven fills a directory beside it, which is
then renamed into place, so two processes may fetch the same jars at once.
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
    """Maven coordinates. `alone` leaves out what the artifact depends on."""

    group: str
    name: str
    version: str
    alone: bool = False


def fetch_jars(name: str, artifacts: Sequence[Artifact]) -> Path:
    """The directory with the jars of these artifacts and of what they depend on; Maven is asked only the first time."""
    pom = _pom(artifacts)
    target = cache_dir() / f"{name}-{hashlib.sha256(pom.encode()).hexdigest()[:8]}"
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaMissingError(f"Maven fetches the jars of {name}: apt-get install maven")
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
            # Another process was quicker; its directory is as complete as ours.
            if not target.is_dir():
                raise
    return target


def _maven_environment() -> dict[str, str]:
    # Maven finds the machine's Java by itself; only a runtime that lives inside a Python package must be pointed out.
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
