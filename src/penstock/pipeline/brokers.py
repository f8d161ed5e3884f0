"""Which brokers a source, a sink or the dead letters are on, and whether what they need is there.

Owns the order of precedence (the endpoint's own, the pipeline's, the command's, the embedded broker) and the checks
before the first batch: a topic that is missing, a password that is wrong and a broker that is away are told at once, in
one line, and not by the stack traces of a query.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock.client.admin import Admin
from penstock.client.local_broker.bootstrap import embedded_broker, require_listener
from penstock.core.addresses import DEFAULT_DATA_DIR, parse_bootstrap_servers
from penstock.core.errors import ClientError, ProtocolError, TopicExists
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.choice import nearest
from penstock.pipeline.declaration.kafka_endpoint import KafkaEndpoint
from penstock.pipeline.declaration.spec import SOLE_SOURCE, PipelineHead, PipelineSpec
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.sources.source import Source
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WIRE_SETTING_NAMES, WireClient

_KAFKA: Final = "kafka."
_TIMEOUT_S: Final = 15.0


class Brokers:
    """`given` is what the command says; None: the embedded broker of `directory`, started when it is first needed."""

    def __init__(self, head: PipelineHead, given: str | None, directory: Path) -> None:
        self._head = head
        self._given = given
        self._directory = directory

    def of(self, endpoint: KafkaEndpoint) -> dict[str, str]:
        """Settings of a client, in Kafka's names."""
        return self._settings(endpoint.bootstrap_servers, endpoint.options)

    def of_dead_letters(self, spec: PipelineSpec) -> dict[str, str]:
        """Beside the sink's topic, or else beside the first source's: there the credentials are known to be good."""
        if spec.sink.kafka is not None:
            return self.of(spec.sink.kafka)
        for source in spec.all_sources.values():
            if source.kafka is not None:
                return {name: value for name, value in self.of(source.kafka).items() if name in WIRE_SETTING_NAMES}
        return self._settings(None, {})

    def _settings(self, own: str | None, options: Mapping[str, Any]) -> dict[str, str]:
        servers = own or self._head.bootstrap_servers or self._given or _embedded(self._directory)
        told = {
            name[len(_KAFKA) :].lower(): str(value)
            for name, value in options.items()
            if name.lower().startswith(_KAFKA)
        }
        return {**told, "bootstrap.servers": servers}


_started: dict[Path, str] = {}
_open_brokers: Final = contextlib.ExitStack()


def _embedded(directory: Path) -> str:
    """One for a process, which holds it until it ends: queries of several pipelines may use it."""
    data_dir = (directory / DEFAULT_DATA_DIR).absolute()
    if data_dir not in _started:
        if not _started:
            atexit.register(_open_brokers.close)
        _started[data_dir] = _open_brokers.enter_context(embedded_broker(data_dir))
    return _started[data_dir]


def source_key(name: str) -> str:
    """Where a source of that name stands in a pipeline file."""
    return SOLE_SOURCE if name == SOLE_SOURCE else f"sources.{name}"


def check_source(name: str, source: Source, kafka: Mapping[str, str]) -> dict[str, str]:
    """Raises PipelineFailed unless the topics of a source can be read. Their ids, where the broker gives any."""
    key = source_key(name)
    with asking(key, kafka) as client:
        topics = client.metadata(None, timeout_s=_TIMEOUT_S).topics
    for topic in source.named_topics:
        if topic not in topics:
            resembled = nearest(topic, [known for known, found in topics.items() if not found.is_internal])
            hint = f"did you mean '{resembled}'?" if resembled else f"create it: penstock topic create {topic}"
            raise PipelineFailed(f"{key}.topic: topic '{topic}' does not exist; {hint}", ExitCode.NOT_FOUND)
    return {
        topic: found.topic_id.hex() for topic, found in topics.items() if source.reads(topic) and any(found.topic_id)
    }


def ensure_topic(purpose: str, topic: str, kafka: Mapping[str, str]) -> None:
    """Creates a topic that is to be written, with the broker's defaults, if it is not there."""
    with asking(purpose, kafka) as client:
        if topic in client.metadata([topic], timeout_s=_TIMEOUT_S).topics:
            return
    settings = {name: value for name, value in kafka.items() if name in WIRE_SETTING_NAMES}
    try:
        Admin(settings).create_topic(topic)
    except TopicExists:
        pass  # somebody else was quicker
    except ClientError as refusal:
        raise PipelineFailed(f"{purpose}: {refusal}", ExitCode.SINK_REFUSED) from refusal


@contextlib.contextmanager
def asking(purpose: str, kafka: Mapping[str, str]) -> Any:
    """A client for the length of a block. What a broker refuses is PipelineFailed; its line begins with `purpose`."""
    settings = {name: value for name, value in kafka.items() if name in WIRE_SETTING_NAMES}
    try:
        require_listener(parse_bootstrap_servers(settings["bootstrap.servers"]))
        with WireClient(settings) as client:
            yield client
    except ValueError as mistake:
        raise PipelineFailed(f"{purpose}: bootstrap_servers {mistake}", ExitCode.INVALID_PIPELINE) from mistake
    except (ClientError, BrokerError, ProtocolError) as refusal:
        raise PipelineFailed(f"{purpose}: {refusal}", refusal.entry.exit_code, refusal.entry.condition) from refusal
