"""A real Apache Kafka for tests and benchmarks: one node, KRaft combined mode, Kafka's own default settings.

Owns the pinned release, the process and its directory. It has the interface of `penstock.testing.Broker`, so that a
test or a benchmark can use either. It must not depend on Penstock's broker.

Invariants: the process listens on loopback only; ports and data survive `stop`, `kill` and `start`; after the context,
no process and no temporary directory remains.
"""

from __future__ import annotations

import base64
import contextlib
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.testing.java import Artifact, JavaRuntime, fetch_jars, find_java

KAFKA_VERSION: Final = "4.3.1"
LOG4J_VERSION: Final = "2.25.4"

# The JVM options of kafka-run-class.sh, without its JMX port and its garbage collection log.
_JVM_FLAGS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

_QUIET_LOGGING: Final = """\
status = error
appender.stdout.type = Console
appender.stdout.name = STDOUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = STDOUT
"""

_START_ATTEMPTS: Final = 3


class ApacheKafkaError(RuntimeError):
    """Apache Kafka, or one of its tools, failed; the message ends with its output."""


def kafka_jars() -> Path:
    """The directory with Apache Kafka's jars: server, clients and tools; fetched on first use."""
    return fetch_jars(
        f"apache-kafka-{KAFKA_VERSION}",
        [
            Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
            Artifact("org.apache.kafka", "kafka-clients", KAFKA_VERSION),
            # The tools depend on Kafka Connect and its web server; the dump tool needs neither.
            Artifact("org.apache.kafka", "kafka-tools", KAFKA_VERSION, alone=True),
            Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        ],
    )


def run_kafka_tool(main_class: str, arguments: Sequence[str], *, timeout_s: float = 60) -> str:
    """Runs one of Kafka's command line tools and returns its output; a non-zero exit raises ApacheKafkaError."""
    command = [str(find_java().java), "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", _class_path(), main_class]
    done = subprocess.run(
        [*command, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        raise ApacheKafkaError(f"{main_class} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def dump_log_segments(*files: Path, deep_iteration: bool = True) -> str:
    """The output of Kafka's DumpLogSegments for log, index and time index files."""
    arguments = ["--files", ",".join(str(file) for file in files)]
    if deep_iteration:
        arguments.append("--deep-iteration")
    return run_kafka_tool("org.apache.kafka.tools.DumpLogSegments", arguments)


class ApacheKafka:
    """One Apache Kafka node on free loopback ports; a context manager that starts it and stops it.

    `config` may name further listeners beside the one for the controller; clients and tests use the first one.
    """

    def __init__(
        self,
        *,
        data_dir: Path | str | None = None,
        config: Mapping[str, str] | None = None,
        heap: str = "1G",
        start_timeout_s: float = 60,
    ) -> None:
        self._temporary = None if data_dir else tempfile.TemporaryDirectory(prefix="apache-kafka-")
        self.data_dir = Path(self._temporary.name if self._temporary else str(data_dir)).absolute()
        self.version = KAFKA_VERSION
        self._config = dict(config or {})
        self._heap = heap
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self.port, self._controller_port = free_ports(2)
        if "listeners" in self._config:
            self.port = int(self._config["listeners"].partition(",")[0].rpartition(":")[2])

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ApacheKafkaError("Apache Kafka is not running")
        return self._process.pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output_file(self) -> Path:
        """The file with the JVM's stdout and stderr."""
        return self.data_dir / "server.out"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._clean_up()

    def start(self) -> None:
        """Starts the node, after formatting its storage at the first start; returns when it accepts requests."""
        if self._process is not None:
            raise ApacheKafkaError("Apache Kafka is already running")
        runtime = find_java()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / "log4j2.properties").write_text(_QUIET_LOGGING, encoding="utf-8")
        first_time = not (self.data_dir / "meta.properties").exists()
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._write_properties()
            if first_time and attempt == 1:
                self._format_storage()
            self._launch(runtime)
            try:
                self._wait_until_ready()
            except ApacheKafkaError as error:
                self.kill()
                # Another process may have bound the free port before Kafka did.
                if not (first_time and attempt < _START_ATTEMPTS and "BindException" in str(error)):
                    raise
                self.port, self._controller_port = free_ports(2)
            else:
                return

    def stop(self, timeout_s: float = 30) -> None:
        """SIGTERM: a controlled shutdown. Kills a node that does not exit in time."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """SIGKILL: the node exits without shutdown."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def _clean_up(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def _write_properties(self) -> None:
        # The server.properties of Apache Kafka's quickstart; all other settings have Kafka's defaults.
        of_clients = self._config.get("listeners", f"PLAINTEXT://127.0.0.1:{self.port}")
        listeners = f"{of_clients},CONTROLLER://127.0.0.1:{self._controller_port}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self._config,
            "listeners": listeners,
            "advertised.listeners": listeners,
        }
        lines = "".join(f"{name}={value}\n" for name, value in properties.items())
        self._properties_file.write_text(lines, encoding="utf-8")

    @property
    def _properties_file(self) -> Path:
        return self.data_dir / "server.properties"

    def _format_storage(self) -> None:
        run_kafka_tool(
            "kafka.tools.StorageTool",
            ["format", "--cluster-id", random_cluster_id(), "--config", str(self._properties_file), "--standalone"],
        )

    def _launch(self, runtime: JavaRuntime) -> None:
        logging = f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}"
        command = [str(runtime.java), f"-Xmx{self._heap}", f"-Xms{self._heap}", *_JVM_FLAGS, logging]
        command += ["-cp", _class_path(), "kafka.Kafka", str(self._properties_file)]
        with self.output_file.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self.data_dir
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline:
            assert self._process is not None
            if (code := self._process.poll()) is not None:
                raise ApacheKafkaError(f"Apache Kafka ended with {code} while starting:\n{self._last_output()}")
            if _answers(self.port):
                return
            time.sleep(0.02)
        raise ApacheKafkaError(f"Apache Kafka was not ready in {self._start_timeout_s} s:\n{self._last_output()}")

    def _last_output(self) -> str:
        return self.output_file.read_text(encoding="utf-8", errors="replace")[-4000:]


def _class_path() -> str:
    return f"{kafka_jars()}/*"


def random_cluster_id() -> str:
    # A leading dash would be parsed as an option.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").replace(b"-", b"_").decode()


def free_ports(count: int) -> list[int]:
    """All different: each is held until the last one is found."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _answers(port: int) -> bool:
    """Whether the node lists itself in a Metadata v1 response. The port opens some time before that."""
    metadata_key, version, correlation_id, no_client_id, no_topics = 3, 1, 1, -1, 0
    request = struct.pack(">hhihi", metadata_key, version, correlation_id, no_client_id, no_topics)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as stream:
                header = stream.read(12)
    except OSError:
        return False
    if len(header) < 12:
        return False
    _size, _correlation_id, broker_count = struct.unpack(">iii", header)
    return bool(broker_count > 0)
