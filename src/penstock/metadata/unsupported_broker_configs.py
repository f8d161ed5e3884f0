"""Kafka's broker configuration names that Penstock does not support, so that it can load a Kafka properties file.

Two kinds. Names without effect tune parts that Penstock does not have (purgatories, KRaft's quorum, JMX): they are
accepted at a start, and `BrokerConfig.without_effect` lists them. Refused names configure features that users rely on
(encryption, authentication, policies, tiered storage): a broker that ignored them would be unsafe. Names that tune such
a feature and do not switch it on are in `tuning_definitions.py`.
"""

from __future__ import annotations

from typing import Final

from penstock.metadata.broker_config_definitions import BROKER_CONFIGS

_WITHOUT_EFFECT: Final = """
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    controlled.shutdown.enable
    controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
    controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
    controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
    controller.socket.timeout.ms delete.records.purgatory.purge.interval.requests
    fetch.purgatory.purge.interval.requests group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.threads group.share.assignors group.share.delivery.count.limit group.share.heartbeat.interval.ms
    group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
    group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
    group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.share.sessions
    group.share.max.size group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
    group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
    group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
    group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
    group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
    group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms group.streams.num.standby.replicas
    group.streams.session.timeout.ms initial.broker.registration.timeout.ms kafka.metrics.polling.interval.secs
    kafka.metrics.reporters log.dir.failure.timeout.ms metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
    metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
    metrics.num.samples metrics.recording.level metrics.sample.window.ms num.replica.alter.log.dirs.threads
    producer.purgatory.purge.interval.requests replication.quota.window.num replication.quota.window.size.seconds
    share.coordinator.append.linger.ms share.coordinator.load.buffer.size
    share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms telemetry.max.bytes
    transaction.state.log.load.buffer.size
"""
NAMES_WITHOUT_EFFECT: Final = frozenset(_WITHOUT_EFFECT.split())

# Prefixes, each with the reason in the error message.
REFUSED_PREFIXES: Final[dict[str, str]] = {
    "alter.config.policy.": "policy classes are Java classes",
    "early.start.listeners": "all listeners start together",
    "client.quota.callback.": "quota callbacks are Java classes",
    "config.providers": "configuration providers are Java classes",
    "cordoned.log.dirs": "log directories cannot be cordoned",
    "create.topic.policy.": "policy classes are Java classes",
    "delegation.token.": "this broker has no delegation tokens",
    "follower.fetch.last.tiered.": "this broker has no tiered storage",
    "max.connection.creation.rate": "the rate of new connections is not limited",
    "principal.builder.": "principal builders are Java classes",
    "remote.": "this broker has no tiered storage",
    "sasl.jaas.config": "name the listener and the mechanism: listener.name.<name>.plain.sasl.jaas.config",
    "sasl.": "this broker does not offer that part of SASL",
    "security.providers": "security providers are Java classes",
    "ssl.keystore.password": "a PEM key store has no password: set ssl.key.password for its key",
    "ssl.truststore.password": "a PEM trust store has no password",
    "ssl.": "this broker does not offer that part of TLS",
}


def refusal(name: str) -> str | None:
    """Why a name is refused, or None if it is not."""
    if name in BROKER_CONFIGS:
        return None
    for prefix, reason in REFUSED_PREFIXES.items():
        if name.startswith(prefix):
            return reason
    return None
