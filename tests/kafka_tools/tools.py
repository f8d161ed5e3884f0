"""Apache Kafka's command line tools, run one after the other in one JVM by java/ToolDriver.java."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from penstock.testing.apache_kafka import kafka_jars
from penstock.testing.java import JavaMissingError, find_java

_SOURCE: Final = Path(__file__).parent / "java" / "ToolDriver.java"
_COMPILE_TIMEOUT_S: Final = 60
# The scripts of Kafka's bin directory, and the class that each of them runs.
_MAIN_CLASSES: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


@dataclass(frozen=True)
class Finished:
    code: int
    output: str


class KafkaTools:
    """A JVM for tools; a context manager that ends it."""

    def __init__(self) -> None:
        self._classes = tempfile.TemporaryDirectory(prefix="kafka-tool-driver-")
        runtime = find_java()
        if not runtime.has_compiler:
            raise JavaMissingError(f"{runtime.home} cannot compile: apt-get install default-jdk-headless")
        libraries = f"{kafka_jars()}/*"
        compiler = [str(runtime.java.with_name("javac")), "-cp", libraries, "-d", self._classes.name, str(_SOURCE)]
        compiled = subprocess.run(compiler, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
        assert compiled.returncode == 0, compiled.stderr
        class_path = f"{self._classes.name}{os.pathsep}{libraries}"
        self._process = subprocess.Popen(
            [str(runtime.java), "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", class_path, "ToolDriver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
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
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._classes.cleanup()

    def finish(self, tool: str, *arguments: str) -> Finished:
        """Runs a tool to its end, whatever its exit code is."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([_MAIN_CLASSES[tool], *arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the JVM ended in {tool} {' '.join(arguments)}"
        finished = json.loads(answer)
        return Finished(finished["code"], finished["output"])


@dataclass(frozen=True)
class BrokerTools:
    """Tools that are told which broker they are for."""

    tools: KafkaTools
    bootstrap_servers: str

    def finish(self, tool: str, *arguments: str) -> Finished:
        address = ("--bootstrap-server", self.bootstrap_servers)
        # This one has sub-commands, each with options of its own.
        words = (*arguments, *address) if tool == "kafka-cluster" else (*address, *arguments)
        return self.tools.finish(tool, *words)

    def run(self, tool: str, *arguments: str) -> str:
        """The output of a tool that must succeed."""
        finished = self.finish(tool, *arguments)
        assert finished.code == 0, f"{tool} {' '.join(arguments)} ended with {finished.code}:\n{finished.output}"
        return finished.output

    def refused(self, tool: str, *arguments: str) -> str:
        """The name of the error, of Kafka's protocol, that a tool must end with."""
        finished = self.finish(tool, *arguments)
        assert finished.code != 0, finished.output
        return errors_in(finished.output)[0]


def errors_in(output: str) -> list[str]:
    """The exceptions of Kafka's protocol in the output of a tool, without their package."""
    return re.findall(r"org\.apache\.kafka\.common\.errors\.(\w+)", output)
