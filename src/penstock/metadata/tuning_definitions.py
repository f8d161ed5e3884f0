"""Broker settings that Kafka lets an administrator change while the broker runs, and that tune parts Penstock lacks.

Thread pools, the buffers of the log cleaner, Kerberos logins, replication throttles: Kafka's tools and runbooks set
them, so they are accepted, stored and described, and the broker names them once in its log. Part of `BROKER_CONFIGS`.
"""

from __future__ import annotations

from typing import Final

from penstock.metadata.config_definition import LONG_MAX, ConfigDefinition, ConfigType, DynamicScope

_BOOLEAN: Final = ConfigType.BOOLEAN
_DOUBLE: Final = ConfigType.DOUBLE
_INT: Final = ConfigType.INT
_LIST: Final = ConfigType.LIST
_LONG: Final = ConfigType.LONG
_SHORT: Final = ConfigType.SHORT
_STRING: Final = ConfigType.STRING
_CLUSTER_WIDE: Final = DynamicScope.CLUSTER_WIDE
_PER_BROKER: Final = DynamicScope.PER_BROKER


def _tuning(
    name: str,
    kind: ConfigType,
    default: str | None,
    doc: str,
    minimum: float | None = None,
    scope: DynamicScope = _CLUSTER_WIDE,
    internal: bool = False,
) -> ConfigDefinition:
    return ConfigDefinition(name, kind, default, doc, minimum=minimum, scope=scope, internal=internal, has_effect=False)


# fmt: off
TUNING_DEFINITIONS: Final = (
    _tuning("background.threads", _INT, "10", "Kafka's threads for background tasks.", 1),
    _tuning("num.io.threads", _INT, "8", "Kafka's threads for requests.", 1),
    _tuning("num.network.threads", _INT, "3", "Kafka's threads for each listener.", 1),
    _tuning("num.recovery.threads.per.data.dir", _INT, "2", "Kafka's threads for the recovery of logs.", 1),
    _tuning("metric.reporters", _LIST, "org.apache.kafka.common.metrics.JmxReporter", "Java classes for metrics."),
    _tuning("log.cleaner.threads", _INT, "1", "Kafka's threads for compaction.", 0),
    _tuning("log.cleaner.dedupe.buffer.size", _LONG, "134217728", "The memory of Kafka's log cleaner."),
    _tuning("log.cleaner.io.buffer.load.factor", _DOUBLE, "0.9", "How full that memory may become."),
    _tuning("log.cleaner.io.buffer.size", _INT, "524288", "The read and write buffers of Kafka's log cleaner.", 0),
    _tuning("log.cleaner.io.max.bytes.per.second", _DOUBLE, "1.7976931348623157E308", "A throttle of the log cleaner."),
    _tuning("sasl.kerberos.kinit.cmd", _STRING, "/usr/bin/kinit", "Kerberos' kinit.", scope=_PER_BROKER),
    _tuning("sasl.kerberos.min.time.before.relogin", _LONG, "60000", "Between two Kerberos logins.", scope=_PER_BROKER),
    _tuning("sasl.kerberos.principal.to.local.rules", _LIST, "DEFAULT", "Kerberos names to users.", scope=_PER_BROKER),
    _tuning("sasl.kerberos.service.name", _STRING, None, "Kafka's name as a Kerberos service.", scope=_PER_BROKER),
    _tuning("sasl.kerberos.ticket.renew.jitter", _DOUBLE, "0.05", "Jitter of ticket renewals.", scope=_PER_BROKER),
    _tuning("sasl.kerberos.ticket.renew.window.factor", _DOUBLE, "0.8", "When tickets are renewed.", scope=_PER_BROKER),
    _tuning("sasl.login.refresh.buffer.seconds", _SHORT, "300", "The refresh of logins.", 0, _PER_BROKER),
    _tuning("sasl.login.refresh.min.period.seconds", _SHORT, "60", "The refresh of logins.", 0, _PER_BROKER),
    _tuning("sasl.login.refresh.window.factor", _DOUBLE, "0.8", "The refresh of logins.", scope=_PER_BROKER),
    _tuning("sasl.login.refresh.window.jitter", _DOUBLE, "0.05", "The refresh of logins.", scope=_PER_BROKER),
    _tuning("group.coordinator.cached.buffer.max.bytes", _INT, "1048588", "A buffer of Kafka's coordinators.", 524288),
    _tuning("share.coordinator.cached.buffer.max.bytes", _INT, "1048588", "A buffer of Kafka's coordinators.", 524288),
    _tuning("group.share.assignment.interval.ms", _INT, "1000", "Between two assignments of a share group.", 0),
    _tuning("group.streams.assignment.interval.ms", _INT, "1000", "Between two assignments of a streams group.", 0),
    _tuning("remote.fetch.max.wait.ms", _INT, "500", "How long a fetch waits for tiered storage.", 1),
    _tuning("remote.list.offsets.request.timeout.ms", _LONG, "30000", "How long ListOffsets waits for it.", 1),
    _tuning("remote.log.index.file.cache.total.size.bytes", _LONG, "1073741824", "A cache of tiered storage.", 1),
    _tuning("remote.log.manager.copy.max.bytes.per.second", _LONG, str(LONG_MAX), "A throttle of tiered storage.", 1),
    _tuning("remote.log.manager.fetch.max.bytes.per.second", _LONG, str(LONG_MAX), "A throttle of tiered storage.", 1),
    _tuning("remote.log.manager.copier.thread.pool.size", _INT, "10", "Kafka's threads for tiered storage.", 1),
    _tuning("remote.log.manager.expiration.thread.pool.size", _INT, "10", "Kafka's threads for tiered storage.", 1),
    _tuning("remote.log.manager.follower.thread.pool.size", _INT, "2", "Kafka's threads for tiered storage.", 1),
    _tuning("remote.log.reader.threads", _INT, "10", "Kafka's threads for tiered storage.", 1),
    _tuning("follower.fetch.last.tiered.offset.enable", _BOOLEAN, "false", "How followers begin with tiered storage."),
    # kafka-reassign-partitions sets these while replicas move. Kafka describes them only where they are set.
    _tuning("leader.replication.throttled.rate", _LONG, None, "A throttle of moving replicas.", 0, internal=True),
    _tuning("follower.replication.throttled.rate", _LONG, None, "A throttle of moving replicas.", 0, internal=True),
    _tuning("replica.alter.log.dirs.io.max.bytes.per.second", _LONG, None, "A throttle of moving replicas.", 0,
            internal=True),
)
# fmt: on
