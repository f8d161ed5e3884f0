"""Every topic-level configuration name of Kafka 4.x, and the broker settings that a topic inherits from.

A table, and nothing that resolves it (`topic_config.py` does). Types, defaults and ranges are Kafka's, checked against
its own definitions; the sentences are ours.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.metadata.config_definition import LONG_MAX, ConfigDefinition, ConfigType, table

_BOOLEAN: Final = ConfigType.BOOLEAN
_DOUBLE: Final = ConfigType.DOUBLE
_INT: Final = ConfigType.INT
_LIST: Final = ConfigType.LIST
_LONG: Final = ConfigType.LONG
_STRING: Final = ConfigType.STRING

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES: Final = ("compact", "delete")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")

_define = ConfigDefinition
# fmt: off
TOPIC_CONFIGS: Final = table((
    _define("cleanup.policy", _LIST, "delete",
            "The cleanup of old segments: delete, compact (keep the last record of each key), or both.",
            choices=CLEANUP_POLICIES),
    _define("compression.gzip.level", _INT, "-1",
            "gzip's level where the broker recompresses; -1 leaves it to the library.",
            minimum=1, maximum=9, also_allowed=-1),
    _define("compression.lz4.level", _INT, "9",
            "lz4's level where the broker recompresses.", minimum=1, maximum=17),
    _define("compression.type", _STRING, "producer",
            "The compression that batches are stored with; producer keeps whatever the producer chose.",
            choices=COMPRESSION_TYPES),
    _define("compression.zstd.level", _INT, "3",
            "zstd's level where the broker recompresses.", minimum=-131072, maximum=22),
    _define("delete.retention.ms", _LONG, "86400000",
            "How long a compacted topic keeps the tombstone of a deleted key.", minimum=0),
    _define("file.delete.delay.ms", _LONG, "60000",
            "How long a deleted segment's file stays on disk, renamed.", minimum=0),
    _define("flush.messages", _LONG, str(LONG_MAX),
            "fsync after this many records; 1 makes every acknowledgement wait for the disk.", minimum=1),
    _define("flush.ms", _LONG, str(LONG_MAX),
            "fsync at the latest this long after a record was written.", minimum=0),
    _define("follower.replication.throttled.replicas", _LIST, "",
            "Replicas whose catching up is throttled on the follower's side: partition:broker pairs, or *.",
            throttled_replicas=True, has_effect=False),
    _define("index.interval.bytes", _INT, "4096",
            "How many bytes of log lie between two entries of the offset index.", minimum=0),
    _define("internal.segment.bytes", _INT, None,
            "Overrides segment.bytes without its lower bound; for tests.", internal=True),
    _define("leader.replication.throttled.replicas", _LIST, "",
            "Replicas whose catching up is throttled on the leader's side: partition:broker pairs, or *.",
            throttled_replicas=True, has_effect=False),
    _define("local.retention.bytes", _LONG, "-2",
            "With tiered storage, how much of a partition stays local; -2 means retention.bytes.", minimum=-2,
            has_effect=False),
    _define("local.retention.ms", _LONG, "-2",
            "With tiered storage, how long segments stay local; -2 means retention.ms.", minimum=-2, has_effect=False),
    _define("max.compaction.lag.ms", _LONG, str(LONG_MAX),
            "A record becomes subject to compaction at the latest after this time.", minimum=1),
    _define("max.message.bytes", _INT, "1048588",
            "The largest record batch that the topic accepts, compressed, with its header.", minimum=0),
    _define("message.timestamp.after.max.ms", _LONG, "3600000",
            "How far a record's timestamp may lie ahead of the broker's clock (CreateTime only).", minimum=0),
    _define("message.timestamp.before.max.ms", _LONG, str(LONG_MAX),
            "How far a record's timestamp may lie behind the broker's clock (CreateTime only).", minimum=0),
    _define("message.timestamp.type", _STRING, "CreateTime",
            "Whose clock a record's timestamp shows: the producer's, or the broker's at the append.",
            choices=TIMESTAMP_TYPES),
    _define("min.cleanable.dirty.ratio", _DOUBLE, "0.5",
            "The share of uncompacted bytes at which the log is compacted again.", minimum=0, maximum=1),
    _define("min.compaction.lag.ms", _LONG, "0",
            "A record stays uncompacted at least this long.", minimum=0),
    _define("min.insync.replicas", _INT, "1",
            "How many replicas must be in sync for a write with acks=all to be accepted.", minimum=1),
    _define("preallocate", _BOOLEAN, "false",
            "Whether a new segment's file gets its full size on disk at once.", has_effect=False),
    _define("remote.log.copy.disable", _BOOLEAN, "false",
            "With tiered storage, whether the topic stops copying segments there.", has_effect=False),
    _define("remote.log.delete.on.disable", _BOOLEAN, "false",
            "Whether tiered data is deleted when tiered storage is switched off for the topic.", has_effect=False),
    _define("remote.storage.enable", _BOOLEAN, "false",
            "Whether the topic uses tiered storage, which this broker does not offer.", has_effect=False),
    _define("retention.bytes", _LONG, "-1",
            "The size beyond which a partition's oldest segments are deleted; -1 means no limit."),
    _define("retention.ms", _LONG, "604800000",
            "The age beyond which segments are deleted; -1 means no limit.", minimum=-1),
    _define("segment.bytes", _INT, "1073741824",
            "The size at which the log rolls to a new segment.", minimum=1048576),
    _define("segment.index.bytes", _INT, "10485760",
            "The largest size of a segment's offset index.", minimum=4),
    _define("segment.jitter.ms", _LONG, "0",
            "A random amount, up to this, taken from segment.ms so that segments do not roll together.", minimum=0),
    _define("segment.ms", _LONG, "604800000",
            "The age at which the log rolls to a new segment even if the old one is not full.", minimum=1),
    _define("unclean.leader.election.enable", _BOOLEAN, "false",
            "Whether a replica that is not in sync may become leader, at the price of lost records.", has_effect=False),
))
# fmt: on


class BrokerSynonym(NamedTuple):
    """A broker setting that a topic's setting falls back to, and the factor from its unit to the topic's."""

    name: str
    factor: int = 1


_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


def _same_unit(*names: str) -> tuple[BrokerSynonym, ...]:
    return tuple(BrokerSynonym(name) for name in names)


# In order of precedence: within one source of configuration the first name that is set wins.
BROKER_SYNONYMS: Final[dict[str, tuple[BrokerSynonym, ...]]] = {
    "cleanup.policy": _same_unit("log.cleanup.policy"),
    "compression.gzip.level": _same_unit("compression.gzip.level"),
    "compression.lz4.level": _same_unit("compression.lz4.level"),
    "compression.type": _same_unit("compression.type"),
    "compression.zstd.level": _same_unit("compression.zstd.level"),
    "delete.retention.ms": _same_unit("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _same_unit("log.segment.delete.delay.ms"),
    "flush.messages": _same_unit("log.flush.interval.messages"),
    "flush.ms": _same_unit("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": _same_unit("log.index.interval.bytes"),
    "local.retention.bytes": _same_unit("log.local.retention.bytes"),
    "local.retention.ms": _same_unit("log.local.retention.ms"),
    "max.compaction.lag.ms": _same_unit("log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _same_unit("message.max.bytes"),
    "message.timestamp.after.max.ms": _same_unit("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _same_unit("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _same_unit("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _same_unit("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _same_unit("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _same_unit("min.insync.replicas"),
    "preallocate": _same_unit("log.preallocate"),
    "retention.bytes": _same_unit("log.retention.bytes"),
    "retention.ms": (
        BrokerSynonym("log.retention.ms"),
        BrokerSynonym("log.retention.minutes", _MINUTE_MS),
        BrokerSynonym("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": _same_unit("log.segment.bytes"),
    "segment.index.bytes": _same_unit("log.index.size.max.bytes"),
    "segment.jitter.ms": (BrokerSynonym("log.roll.jitter.ms"), BrokerSynonym("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", _HOUR_MS)),
    "unclean.leader.election.enable": _same_unit("unclean.leader.election.enable"),
}
