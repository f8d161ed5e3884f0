"""The brokers of one run: which of them a source, a sink or the dead letters use, and which topics they have.

Owns the order of precedence (the endpoint's own, the pipeline's, the command's, the embedded broker), what is asked of
brokers before a start, and how a refusal of theirs reads: one line that begins with the key it is about.

Invariant: a run asks each cluster for its topics once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock.client.admin import Admin
from penstock.client.local_broker.bootstrap import require_listener
from penstock.core.addresses import DEFAULT_DATA_DIR, parse_bootstrap_servers
from penstock.core.errors import ClientError, ProtocolError, TopicExists
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.kafka_endpoint import KafkaEndpoint
from penstock.pipeline.declaration.spec import PipelineHead, PipelineSpec
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.process_state import EmbeddedBrokers, process_wide
from penstock.pipeline.reachability import BrokerWatch
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WIRE_SETTING_NAMES, WireClient
from penstock.wire.errors import Right, require_success
from penstock.wire.metadata import TopicMetadata

_KAFKA: Final = "kafka."
_TIMEOUT_S: Final = 15.0


class Brokers:
    """`given` is what the command says; None: the embedded broker of `directory`, started when it is first needed."""

    def __init__(self, head: PipelineHead, given: str | None, directory: Path) -> None:
        self._head = head
        self._given = given
        self._directory = directory
        self._topics: dict[tuple[tuple[str, str], ...], Mapping[str, TopicMetadata]] = {}

    def of(self, endpoint: KafkaEndpoint) -> dict[str, str]:
        """Settings of a client, in Kafka's names."""
        return self._settings(endpoint.bootstrap_servers, endpoint.options)

    def of_dead_letters(self, spec: PipelineSpec) -> dict[str, str]:
        """Beside the only sink's topic, or else beside the first source's, whose credentials are good."""
        if spec.declared_sink is not None and spec.declared_sink.kafka is not None:
            return self.of(spec.declared_sink.kafka)
        for source in spec.all_sources.values():
            if source.kafka is not None:
                return _wire(self.of(source.kafka))
        return self._settings(None, {})

    def topics(self, purpose: str, kafka: Mapping[str, str]) -> Mapping[str, TopicMetadata]:
        """All topics of a cluster, as they were when this run first asked it. Refusals begin with `purpose`."""
        place = tuple(sorted(_wire(kafka).items()))
        if place not in self._topics:
            with asking(purpose, kafka) as client:
                self._topics[place] = client.metadata(None, timeout_s=_TIMEOUT_S).topics
        return self._topics[place]

    def check_described(self, purpose: str, topic: str, kafka: Mapping[str, str], operation: str) -> None:
        """Lists of topics leave out what a client may not describe; asked for it by name, a broker says so.

        `operation` is what the pipeline will do with the topic.
        """
        with asking(purpose, kafka) as client:
            try:
                client.metadata([topic], timeout_s=_TIMEOUT_S)
            except BrokerError as refusal:
                require_success(refusal.code, f"topic '{topic}'", needs=(Right(operation, "topic", topic),))

    def topic_id(self, purpose: str, topic: str, kafka: Mapping[str, str]) -> str | None:
        """None if the topic did not exist when this run asked, or its broker gives no ids."""
        found = self.topics(purpose, kafka).get(topic)
        return found.topic_id.hex() if found is not None and any(found.topic_id) else None

    def ensure_topic(self, purpose: str, topic: str, kafka: Mapping[str, str]) -> None:
        """Creates a topic that is to be written, with the broker's defaults, if it does not exist."""
        place = tuple(sorted(_wire(kafka).items()))
        if topic in self.topics(purpose, kafka):
            return
        self.check_described(purpose, topic, kafka, "Write")
        try:
            Admin(_wire(kafka)).create_topic(topic)
            with asking(purpose, kafka) as client:
                self._topics[place] = {**self._topics[place], **client.metadata([topic], timeout_s=_TIMEOUT_S).topics}
        except TopicExists:
            pass  # it was created since this run asked
        except ClientError as refusal:
            raise PipelineFailed(f"{purpose}: {refusal}", ExitCode.SINK_REFUSED) from refusal

    def watches(self, spec: PipelineSpec) -> list[BrokerWatch]:
        """One for each cluster that the pipeline reads from or writes to."""
        sinks = [branch.sink.kafka for branch in spec.branches]
        endpoints = [*(source.kafka for source in spec.all_sources.values()), *sinks]
        servers = {self.of(endpoint)["bootstrap.servers"] for endpoint in endpoints if endpoint is not None}
        return [BrokerWatch(parse_bootstrap_servers(each)) for each in sorted(servers)]

    def _embedded(self) -> str:
        return process_wide(EmbeddedBrokers).bootstrap_servers((self._directory / DEFAULT_DATA_DIR).absolute())

    def _settings(self, own: str | None, options: Mapping[str, Any]) -> dict[str, str]:
        servers = own or self._head.bootstrap_servers or self._given or self._embedded()
        told = {
            name[len(_KAFKA) :].lower(): str(value)
            for name, value in options.items()
            if name.lower().startswith(_KAFKA)
        }
        return {**told, "bootstrap.servers": servers}


@contextlib.contextmanager
def asking(purpose: str, kafka: Mapping[str, str]) -> Any:
    """A client for the length of a block. What a broker refuses is PipelineFailed; its line begins with `purpose`."""
    settings = _wire(kafka)
    try:
        require_listener(parse_bootstrap_servers(settings["bootstrap.servers"]))
        with WireClient(settings) as client:
            yield client
    except ValueError as mistake:
        raise PipelineFailed(f"{purpose}: bootstrap_servers {mistake}", ExitCode.INVALID_PIPELINE) from mistake
    except (ClientError, BrokerError, ProtocolError) as refusal:
        raise PipelineFailed(f"{purpose}: {refusal}", refusal.entry.exit_code, refusal.entry.condition) from refusal


def _wire(kafka: Mapping[str, str]) -> dict[str, str]:
    """The settings that the wire client knows."""
    return {name: value for name, value in kafka.items() if name in WIRE_SETTING_NAMES}
