"""The options of the source, those of Spark's own Kafka source (spark-sql-kafka-0-10) and a few of ours, checked.

Owns their names, their defaults, and which are refused with which reason. It must never ask a broker.

Unknown options pass, as they do in Spark, for other layers have theirs in the same map. A name that is not
known but differs from a known one by a letter or so would silently do nothing, so that one is refused.

Invariant: no error, no text form of these options, and no log line holds the value of a `kafka.*` option.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from penstock.client.setting_definitions import CONSUMER, PRODUCER, UNSUPPORTED
from penstock.pipeline.topics.errors import InvalidOption
from penstock.pipeline.topics.option_values import KAFKA_PREFIX, OptionValues
from penstock.pipeline.topics.positions import (
    SELECTION_NAMES,
    Earliest,
    Latest,
    Position,
    Selection,
    check_batch_positions,
    read_position,
    read_selection,
)
from penstock.wire.settings import WIRE_SETTING_NAMES

logger = logging.getLogger(__name__)

KNOWN_OPTIONS: Final = (
    *SELECTION_NAMES,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "columns",
    "idleWaitMs",
    "targetBatchMs",
)

STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "idleWaitMs", "targetBatchMs")

_REFUSED_KAFKA_OPTIONS: Final = {
    "auto.offset.reset": "set startingOffsets to earliest or latest instead: the query itself decides which offsets it "
    "reads, so that nothing is missed when partitions are added; a restarted query goes on where it was",
    "key.deserializer": "keys are read as bytes; use DataFrame operations to deserialize them",
    "value.deserializer": "values are read as bytes; use DataFrame operations to deserialize them",
    "enable.auto.commit": "the query's checkpoint holds its offsets; none are committed to a group",
    "interceptor.classes": "interceptors could change what is read",
}

_FETCH_SETTINGS: Final = frozenset(
    {"isolation.level", "max.partition.fetch.bytes", "fetch.min.bytes", "fetch.max.wait.ms"}
)

_TYPO_SIMILARITY: Final = 0.9
_DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
_DEFAULT_POLL_TIMEOUT_MS: Final = 120_000
_DEFAULT_IDLE_WAIT_MS: Final = 250
_DEFAULT_FETCH_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceOptions:
    selection: Selection
    starting: Position
    ending: Position
    without_match: Literal["error", "latest"]
    """What a starting timestamp means in a partition whose records are all older."""
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    offset_attempts: int
    offset_retry_interval_ms: int
    poll_timeout_ms: int
    idle_wait_ms: int
    target_batch_ms: int | None
    """How long a micro-batch of a backlog should take; None: it takes all available records."""
    fetch_bytes: int
    """Of one answer of a broker."""
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    kafka: Mapping[str, str] = field(repr=False)

    @property
    def reads_committed_only(self) -> bool:
        return self.kafka.get("isolation.level", "read_uncommitted") == "read_committed"


def read_stream_options(options: Mapping[str, str]) -> SourceOptions:
    values = OptionValues(options)
    for name, what in (
        ("endingOffsets", "offset"),
        ("endingOffsetsByTimestamp", "timestamp"),
        ("endingTimestamp", "timestamp"),
    ):
        if name in values:
            raise InvalidOption(f"{name}: an ending {what} is not valid in streaming queries")
    return _read(values, default_start=Latest())


def read_batch_options(options: Mapping[str, str]) -> SourceOptions:
    values = OptionValues(options)
    read = _read(values, default_start=Earliest())
    check_batch_positions(read.starting, read.ending)
    for name in STREAM_ONLY:
        if name in values:
            logger.warning("%s is ignored in batch queries", name)
    return read


def _read(values: OptionValues, *, default_start: Position) -> SourceOptions:
    _refuse_typos(values)
    selection = read_selection(values)
    kafka = _checked_kafka_settings(values)
    maximum = values.integer("maxOffsetsPerTrigger", at_least=1)
    minimum = values.integer("minOffsetsPerTrigger", at_least=1)
    if minimum is not None and maximum is not None and minimum > maximum:
        raise InvalidOption(f"minOffsetsPerTrigger ({minimum}) is higher than maxOffsetsPerTrigger ({maximum})")
    strategy = (values.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise InvalidOption(f"startingOffsetsByTimestampStrategy: {strategy!r} is neither error nor latest")
    return SourceOptions(
        selection=selection,
        starting=read_position(values, "starting", default_start),
        ending=read_position(values, "ending", Latest()),
        without_match="latest" if strategy == "latest" else "error",
        fail_on_data_loss=values.boolean("failOnDataLoss", True),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=values.duration_ms("maxTriggerDelay", _DEFAULT_MAX_TRIGGER_DELAY_MS),
        min_partitions=values.integer("minPartitions", at_least=1),
        max_records_per_partition=values.integer("maxRecordsPerPartition", at_least=1),
        offset_attempts=values.integer("fetchOffset.numRetries", 3, at_least=1) or 3,
        offset_retry_interval_ms=values.integer("fetchOffset.retryIntervalMs", 1000) or 0,
        poll_timeout_ms=values.integer("kafkaConsumer.pollTimeoutMs", _DEFAULT_POLL_TIMEOUT_MS, at_least=1) or 1,
        idle_wait_ms=values.duration_ms("idleWaitMs", _DEFAULT_IDLE_WAIT_MS),
        target_batch_ms=values.integer("targetBatchMs", at_least=1),
        fetch_bytes=values.integer("kafka.max.partition.fetch.bytes", _DEFAULT_FETCH_BYTES, at_least=1) or 1,
        fetch_min_bytes=values.integer("kafka.fetch.min.bytes", 1) or 1,
        fetch_max_wait_ms=values.integer("kafka.fetch.max.wait.ms", 500) or 0,
        kafka=kafka,
    )


def _checked_kafka_settings(values: OptionValues) -> dict[str, str]:
    settings = values.kafka_settings()
    for name, reason in _REFUSED_KAFKA_OPTIONS.items():
        if name in settings:
            raise InvalidOption(f"Kafka option '{name}' is not supported: {reason}")
    if not settings.get("bootstrap.servers", "").strip():
        raise InvalidOption("kafka.bootstrap.servers must be set, for example to localhost:9092")
    isolation = settings.get("isolation.level", "read_uncommitted")
    if isolation not in ("read_uncommitted", "read_committed"):
        raise InvalidOption(f"kafka.isolation.level: {isolation!r} is neither read_uncommitted nor read_committed")
    return settings


def _refuse_typos(values: OptionValues) -> None:
    known = {name.lower(): name for name in KNOWN_OPTIONS}
    known |= {name: name for name in (KAFKA_PREFIX + setting for setting in WIRE_SETTING_NAMES | _FETCH_SETTINGS)}
    elsewhere = CONSUMER.keys() | PRODUCER.keys() | UNSUPPORTED.keys() | _REFUSED_KAFKA_OPTIONS.keys()
    for name in values.names():
        if name in known or name.removeprefix(KAFKA_PREFIX) in elsewhere:
            continue
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=_TYPO_SIMILARITY)
        if nearest:
            raise InvalidOption(f"{name}: no such option; did you mean {known[nearest[0]]}?")
