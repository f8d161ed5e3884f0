"""Apache Kafka's command line tools, run one after the other in one JVM by java/ToolDriver.java."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.testing.apache_kafka import kafka_jars
from tests.java_driver import JavaDriver

_SOURCE: Final = Path(__file__).parent / "java" / "ToolDriver.java"
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


class KafkaTools(JavaDriver):
    """A JVM for tools; a context manager that ends it."""

    def __init__(self) -> None:
        super().__init__(_SOURCE, kafka_jars(), ["-Xmx256M"])

    def finish(self, tool: str, *arguments: str) -> Finished:
        """Runs a tool to its end, whatever its exit code is."""
        finished = self.ask([_MAIN_CLASSES[tool], *arguments])
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
