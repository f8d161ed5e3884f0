"""Java programs of the Kafka project as processes: a Kafka Connect worker and a Kafka Streams application.

Owns their jars, our small application's classes, and the processes. Their settings are the test's.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from penstock.testing.apache_kafka import KAFKA_VERSION, LOG4J_VERSION
from penstock.testing.java import Artifact, JavaMissingError, fetch_jars, find_java

_SOURCE: Final = Path(__file__).parent / "java" / "CountingApplication.java"
_COMPILE_TIMEOUT_S: Final = 60
_LOGGING: Final = """\
status = error
appender.stdout.type = Console
appender.stdout.name = STDOUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = STDOUT
logger.configs.name = org.apache.kafka.common.config
logger.configs.level = warn
"""


def application_jars() -> Path:
    """The directory with the jars of Kafka Connect, its file connectors and Kafka Streams; fetched on first use."""
    return fetch_jars(
        f"kafka-connect-and-streams-{KAFKA_VERSION}",
        [
            Artifact("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
            Artifact("org.apache.kafka", "connect-file", KAFKA_VERSION),
            Artifact("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
            Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        ],
    )


def compile_application(target: Path) -> Path:
    """The directory with the classes of our Streams application."""
    runtime = find_java()
    if not runtime.has_compiler:
        raise JavaMissingError(f"{runtime.home} cannot compile: apt-get install default-jdk-headless")
    compiler = [str(runtime.java.with_name("javac")), "-cp", f"{application_jars()}/*", "-d", str(target), str(_SOURCE)]
    compiled = subprocess.run(compiler, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
    assert compiled.returncode == 0, compiled.stderr
    return target


def write_properties(file: Path, settings: Mapping[str, str]) -> Path:
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return file


class JavaProgram:
    """A main class in a JVM of its own, which can be killed and started again; a context manager that ends it."""

    def __init__(self, directory: Path, main_class: str, arguments: Sequence[str], class_path: Sequence[Path]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        logging = directory / "log4j2.properties"
        logging.write_text(_LOGGING, encoding="utf-8")
        entries = [*map(str, class_path), f"{application_jars()}/*"]
        self._command = [str(find_java().java), "-Xmx384M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        self._command += [f"-Dlog4j2.configurationFile={logging}", "-cp", os.pathsep.join(entries), main_class]
        self._command += arguments
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def output(self) -> str:
        """What the latest start has printed."""
        return self._output_file.read_text(encoding="utf-8", errors="replace")

    @property
    def _output_file(self) -> Path:
        return self._directory / f"output-{self.starts}.log"

    def start(self) -> None:
        assert self._process is None
        self.starts += 1
        with self._output_file.open("wb") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self._directory
            )

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self, timeout_s: float) -> int:
        """The exit code of a program that ends by itself."""
        assert self._process is not None
        code = self._process.wait(timeout_s)
        self._process = None
        return code

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        assert self._process.poll() is None, self.output[-4000:]
        self._process.kill()
        self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
