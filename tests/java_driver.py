"""A Java program that answers lines on its input, one JSON document each, until the input ends.

Owns its compilation, its JVM and the end of both. It must not know what the program does.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from penstock.testing.java import JavaMissingError, find_java

_COMPILE_TIMEOUT_S: Final = 120
_END_TIMEOUT_S: Final = 10


def compiled(source: Path, jars: Path, directory: Path) -> str:
    """The class path of a program whose classes go to a directory."""
    runtime = find_java()
    if not runtime.has_compiler:
        raise JavaMissingError(f"{runtime.home} cannot compile: apt-get install default-jdk-headless")
    libraries = f"{jars}/*"
    compiler = [str(runtime.java.with_name("javac")), "-cp", libraries, "-d", str(directory), str(source)]
    done = subprocess.run(compiler, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return f"{directory}{os.pathsep}{libraries}"


class JavaDriver:
    """A context manager that ends the JVM. The program is a single source file, whose class has the file's name."""

    def __init__(self, source: Path, jars: Path, options: Sequence[str] = (), *, niceness: int = 0) -> None:
        self._classes = tempfile.TemporaryDirectory(prefix="java-driver-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        class_path = compiled(source, jars, Path(self._classes.name))
        command = [str(find_java().java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options]
        command += ["-cp", class_path, source.stem]
        self._process = subprocess.Popen(
            ["nice", "-n", str(niceness), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
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
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()
        self._classes.cleanup()

    def ask(self, request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace")
            raise AssertionError(f"the JVM ended at {str(request)[:200]}: {said}")
        return json.loads(line)
