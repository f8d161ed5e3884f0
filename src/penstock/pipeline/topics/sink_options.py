"""The options of the sink: those of Spark's own Kafka sink, and those of a guarantee, checked.

Owns their names, their defaults, and which are refused with which reason. It must never ask a broker.

Unknown options pass, as they do in Spark. A name that differs from a known one by a letter or so would
silently weaken a guarantee, so that one is refused.

Invariant: no error, no text form of these options, and no log line holds the value of a `kafka.*` option.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, get_args

from penstock.client.setting_definitions import CONSUMER, PRODUCER, UNSUPPORTED
from penstock.core.guarantee import Guarantee
from penstock.pipeline.topics.errors import InvalidOption
from penstock.pipeline.topics.option_values import KAFKA_PREFIX, OptionValues
from penstock.wire.settings import WIRE_SETTING_NAMES

_REFUSED_KAFKA_OPTIONS: Final = {
    "key.serializer": "keys are written as bytes; serialize them with DataFrame operations to strings or bytes",
    "value.serializer": "values are written as bytes; serialize them with DataFrame operations to strings or bytes",
    "transactional.id": "set the option transactionalId, together with guarantee",
    "partitioner.class": "it names a Java class; give rows a column 'partition' instead",
    "interceptor.classes": "interceptors could change what is written",
}
_KNOWN_OPTIONS: Final = (
    "topic",
    "guarantee",
    "transactionalId",
    "batchesTopic",
    "run",
    "handOverDirectory",
    "batchRows",
    "includeHeaders",
)
_TYPO_SIMILARITY: Final = 0.9
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_DEFAULT_BATCH_ROWS: Final = 16 * 1024
_DEFAULT_BATCH_BYTES: Final = 1_000_000
_DEFAULT_DELIVERY_TIMEOUT_MS: Final = 120_000
# Kafka's own default of a minute is short for the slowest batch of a pipeline, and a batch that is too slow for it
# would be tried for ever. A driver that died holds readers up no longer than until its next start.
_DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 300_000
_SMALLEST_BATCH_BYTES: Final = 1024
_LARGEST_BATCH_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class SinkOptions:
    topic: str | None
    """Where all rows go; None: each row says."""
    guarantee: Guarantee
    transactional_id: str | None
    batches_topic: str | None
    """The ids of committed batches are kept as a group's offset of this topic's partition 0."""
    run: str | None
    """Names one run of a driver; None: whatever process prepares the batches is one."""
    hand_over_directory: str | None
    """Tasks and driver share it: what goes from one to the other may go through files in it."""
    acks: int
    compression: str
    compression_level: int | None
    batch_rows: int
    batch_bytes: int
    delivery_timeout_ms: int
    transaction_timeout_ms: int
    kafka: Mapping[str, str] = field(repr=False)

    @property
    def wire_settings(self) -> dict[str, str]:
        return {name: value for name, value in self.kafka.items() if name in WIRE_SETTING_NAMES}

    @property
    def group(self) -> str:
        """Whose offsets say which batches are committed, and whose run this is."""
        return f"{self.transactional_id}.batches"


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    values = OptionValues(options)
    _refuse_typos(values)
    kafka = values.kafka_settings()
    for name, reason in _REFUSED_KAFKA_OPTIONS.items():
        if name in kafka:
            raise InvalidOption(f"Kafka option '{name}' is not supported: {reason}")
    if not kafka.get("bootstrap.servers", "").strip():
        raise InvalidOption("kafka.bootstrap.servers must be set, for example to localhost:9092")
    compression = (values.text("kafka.compression.type") or "none").lower()
    if compression not in _COMPRESSIONS:
        raise InvalidOption(f"kafka.compression.type: {compression!r} is none of {', '.join(_COMPRESSIONS)}")
    guarantee = _guarantee(values)
    batch_bytes = values.integer("kafka.batch.size", _DEFAULT_BATCH_BYTES) or 0
    return SinkOptions(
        topic=values.text("topic"),
        guarantee=guarantee,
        transactional_id=_transactional_id(values, guarantee),
        batches_topic=values.text("batchesTopic") or values.text("topic"),
        run=values.text("run"),
        hand_over_directory=values.text("handOverDirectory"),
        acks=_acks(values, guarantee),
        compression=compression,
        compression_level=_compression_level(values, compression),
        batch_rows=values.integer("batchRows", _DEFAULT_BATCH_ROWS, at_least=1) or 1,
        batch_bytes=min(max(batch_bytes, _SMALLEST_BATCH_BYTES), _LARGEST_BATCH_BYTES),
        delivery_timeout_ms=values.integer("kafka.delivery.timeout.ms", _DEFAULT_DELIVERY_TIMEOUT_MS, at_least=1) or 1,
        transaction_timeout_ms=values.integer(
            "kafka.transaction.timeout.ms", _DEFAULT_TRANSACTION_TIMEOUT_MS, at_least=1
        )
        or 1,
        kafka=kafka,
    )


def require_batches_topic(options: SinkOptions) -> str:
    """For a stream that remembers its batches."""
    if options.transactional_id is None:
        raise InvalidOption(
            f"transactionalId must be set for guarantee {options.guarantee}: one name for the query, the same at every "
            "start"
        )
    if options.batches_topic is None:
        raise InvalidOption(
            f"guarantee {options.guarantee} keeps the ids of batches with a topic: set the option topic, or "
            "batchesTopic to one of the topics that rows name"
        )
    return options.batches_topic


def _refuse_typos(values: OptionValues) -> None:
    known = {name.lower(): name for name in _KNOWN_OPTIONS}
    known |= {name: name for name in (KAFKA_PREFIX + setting for setting in WIRE_SETTING_NAMES | PRODUCER.keys())}
    for name in values.names():
        if name in known or name.removeprefix(KAFKA_PREFIX) in CONSUMER.keys() | UNSUPPORTED.keys():
            continue
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=_TYPO_SIMILARITY)
        if nearest:
            raise InvalidOption(f"{name}: no such option; did you mean {known[nearest[0]]}?")


def _guarantee(values: OptionValues) -> Guarantee:
    given = (values.text("guarantee") or "at_least_once").lower()
    for guarantee in get_args(Guarantee):
        if guarantee == given:
            return guarantee  # type: ignore[no-any-return]
    raise InvalidOption(f"guarantee: {given!r} is none of {', '.join(get_args(Guarantee))}")


def _transactional_id(values: OptionValues, guarantee: Guarantee) -> str | None:
    transactional_id = values.text("transactionalId")
    if guarantee == "exactly_once" and not transactional_id:
        raise InvalidOption(
            "transactionalId must be set for guarantee exactly_once: one name for the query, the same at every start"
        )
    return transactional_id or None


def _acks(values: OptionValues, guarantee: Guarantee) -> int:
    given = (values.text("kafka.acks") or "all").lower()
    acks = {"all": -1, "-1": -1, "1": 1, "0": 0}.get(given)
    if acks is None:
        raise InvalidOption(f"kafka.acks: {given!r} is none of all, -1, 0, 1")
    if guarantee == "exactly_once" and acks != -1:
        raise InvalidOption("kafka.acks must be all for guarantee exactly_once")
    return acks


def _compression_level(values: OptionValues, compression: str) -> int | None:
    if f"kafka.compression.{compression}.level" not in values:
        return None
    return values.integer(f"kafka.compression.{compression}.level", at_least=-(1 << 17))
