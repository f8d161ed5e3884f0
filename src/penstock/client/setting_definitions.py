"""The client settings: Kafka's names and defaults, and their names in librdkafka.

Data only; `settings.py` reads it. Three tables: common settings, producer settings, consumer settings. Settings without
a name in librdkafka are implemented by our own code.

Invariant: names, defaults and choices are those of Apache Kafka 4.x's Java clients. There are two exceptions:
`UNSUPPORTED` lists names that are rejected with a reason, and `LIBRDKAFKA_ONLY` lists accepted names of librdkafka that
Kafka's clients have no equivalent for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

Value = str | int | float | bool | None


class Definition(NamedTuple):
    kind: type
    default: Value = None
    """Kafka's default where librdkafka's differs; None where both are the same."""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    librdkafka: tuple[str, ...] | None = None
    """Its names in librdkafka; None: the same name; empty: implemented by our own code."""


NOT_IN_LIBRDKAFKA: Final[tuple[str, ...]] = ()

EVERY_CLIENT: Final[Mapping[str, Definition]] = {
    "bootstrap.servers": Definition(str),
    "client.dns.lookup": Definition(
        str, choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), default="use_all_dns_ips"
    ),
    "client.id": Definition(str),
    "connections.max.idle.ms": Definition(int, 540_000, minimum=0),
    "enable.metrics.push": Definition(bool),
    "metadata.max.age.ms": Definition(int, 300_000, minimum=1),
    "metadata.recovery.rebootstrap.trigger.ms": Definition(int, minimum=0),
    "metadata.recovery.strategy": Definition(str, choices=("rebootstrap", "none")),
    "receive.buffer.bytes": Definition(int, minimum=0, librdkafka=("socket.receive.buffer.bytes",)),
    "reconnect.backoff.max.ms": Definition(int, 1_000, minimum=0),
    "reconnect.backoff.ms": Definition(int, 50, minimum=0),
    "request.timeout.ms": Definition(int, 30_000, minimum=1, librdkafka=("socket.timeout.ms",)),
    "retry.backoff.max.ms": Definition(int, minimum=1),
    "retry.backoff.ms": Definition(int, minimum=1),
    "sasl.kerberos.service.name": Definition(str),
    "sasl.mechanism": Definition(str),
    "security.protocol": Definition(str, choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "send.buffer.bytes": Definition(int, minimum=0, librdkafka=("socket.send.buffer.bytes",)),
    "socket.connection.setup.timeout.ms": Definition(int, 10_000, minimum=1),
    "ssl.cipher.suites": Definition(str),
    "ssl.endpoint.identification.algorithm": Definition(str),
    "ssl.key.password": Definition(str),
    "ssl.keystore.certificate.chain": Definition(str, librdkafka=("ssl.certificate.pem",)),
    "ssl.keystore.key": Definition(str, librdkafka=("ssl.key.pem",)),
    "ssl.keystore.location": Definition(str),
    "ssl.keystore.password": Definition(str),
    "ssl.truststore.certificates": Definition(str, librdkafka=("ssl.ca.pem",)),
}

PRODUCER: Final[Mapping[str, Definition]] = {
    **EVERY_CLIENT,
    "acks": Definition(str, choices=("all", "-1", "0", "1")),
    "batch.size": Definition(int, 16_384, minimum=1),
    "buffer.memory": Definition(int, 33_554_432, minimum=1024, librdkafka=("queue.buffering.max.kbytes",)),
    "compression.gzip.level": Definition(int, minimum=-1, librdkafka=("compression.level",)),
    "compression.lz4.level": Definition(int, minimum=1, librdkafka=("compression.level",)),
    "compression.type": Definition(str, choices=("none", "gzip", "snappy", "lz4", "zstd")),
    "compression.zstd.level": Definition(int, minimum=-1, librdkafka=("compression.level",)),
    "delivery.timeout.ms": Definition(int, 120_000, minimum=1),
    "enable.idempotence": Definition(bool, True),
    "linger.ms": Definition(float, 5, minimum=0),
    "max.block.ms": Definition(int, 60_000, minimum=0, librdkafka=NOT_IN_LIBRDKAFKA),
    "max.in.flight.requests.per.connection": Definition(int, 5, minimum=1),
    "max.request.size": Definition(int, 1_048_576, minimum=1000, librdkafka=("message.max.bytes",)),
    "request.timeout.ms": Definition(int, 30_000, minimum=1, librdkafka=("request.timeout.ms", "socket.timeout.ms")),
    "retries": Definition(int, minimum=0),
    "transaction.timeout.ms": Definition(int, 60_000, minimum=1000),
    "transactional.id": Definition(str),
}

CONSUMER: Final[Mapping[str, Definition]] = {
    **EVERY_CLIENT,
    "allow.auto.create.topics": Definition(bool, True),
    "auto.commit.interval.ms": Definition(int, 5_000, minimum=1),
    "auto.offset.reset": Definition(str, "latest", choices=("earliest", "latest", "none")),
    "check.crcs": Definition(bool, True),
    "client.rack": Definition(str),
    "default.api.timeout.ms": Definition(int, 60_000, minimum=1, librdkafka=NOT_IN_LIBRDKAFKA),
    "enable.auto.commit": Definition(bool, True),
    "fetch.max.bytes": Definition(int, 52_428_800, minimum=0),
    "fetch.max.wait.ms": Definition(int, 500, minimum=0, librdkafka=("fetch.wait.max.ms",)),
    "fetch.min.bytes": Definition(int, 1, minimum=1),
    "group.id": Definition(str),
    "group.instance.id": Definition(str),
    "group.protocol": Definition(str, "classic", choices=("classic", "consumer")),
    "group.remote.assignor": Definition(str),
    "heartbeat.interval.ms": Definition(int, 3_000, minimum=1),
    "isolation.level": Definition(str, "read_uncommitted", choices=("read_uncommitted", "read_committed")),
    "max.partition.fetch.bytes": Definition(int, 1_048_576, minimum=1),
    "max.poll.interval.ms": Definition(int, 300_000, minimum=1),
    "max.poll.records": Definition(int, 500, minimum=1, librdkafka=NOT_IN_LIBRDKAFKA),
    "partition.assignment.strategy": Definition(str, "range"),
    "session.timeout.ms": Definition(int, 45_000, minimum=1),
}

ADMIN: Final[Mapping[str, Definition]] = EVERY_CLIENT

# With the consumer group protocol of KIP-848 the broker decides these, and librdkafka rejects them.
DECIDED_BY_BROKER: Final = frozenset({"heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"})

ASSIGNORS: Final[Mapping[str, str]] = {
    "range": "range",
    "roundrobin": "roundrobin",
    "cooperative-sticky": "cooperative-sticky",
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}

# Settings of librdkafka that Kafka's clients do not have, or have only for Java.
LIBRDKAFKA_ONLY: Final = frozenset(
    {
        "broker.address.family",
        "debug",
        "enable.ssl.certificate.verification",
        "error_cb",
        "fetch.queue.backoff.ms",
        "log_level",
        "logger",
        "oauth_cb",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
        "socket.keepalive.enable",
        "socket.nagle.disable",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.providers",
        "statistics.interval.ms",
        "stats_cb",
        "sticky.partitioning.linger.ms",
        "throttle_cb",
    }
)

_NAME_IS: Final = "is librdkafka's name; Kafka's is {}"
UNSUPPORTED: Final[Mapping[str, str]] = {
    "batch.num.messages": "is librdkafka's name; set batch.size to limit a batch",
    "compression.codec": _NAME_IS.format("compression.type"),
    "delivery.report.only.error": "is not supported: every send returns a future",
    "enable.auto.offset.store": "is not supported: the next poll marks the records of the previous one as processed",
    "enable.partition.eof": "is not supported: compare position with end_offset",
    "fetch.message.max.bytes": _NAME_IS.format("max.partition.fetch.bytes"),
    "fetch.wait.max.ms": _NAME_IS.format("fetch.max.wait.ms"),
    "interceptor.classes": "names Java classes; wrap send, poll or the handler instead",
    "key.deserializer": "names a Java class; pass key_deserializer=",
    "key.serializer": "names a Java class; pass key_serializer=",
    "max.in.flight": _NAME_IS.format("max.in.flight.requests.per.connection"),
    "message.max.bytes": _NAME_IS.format("max.request.size"),
    "message.send.max.retries": _NAME_IS.format("retries"),
    "message.timeout.ms": _NAME_IS.format("delivery.timeout.ms"),
    "metadata.broker.list": _NAME_IS.format("bootstrap.servers"),
    "metric.reporters": "names Java classes; set statistics.interval.ms and stats_cb",
    "partitioner": "is librdkafka's name; pass partitioner=",
    "partitioner.class": "names a Java class; pass partitioner=",
    "queue.buffering.max.kbytes": _NAME_IS.format("buffer.memory"),
    "queue.buffering.max.messages": "is librdkafka's name; set buffer.memory to limit queued records",
    "queue.buffering.max.ms": _NAME_IS.format("linger.ms"),
    "request.required.acks": _NAME_IS.format("acks"),
    "socket.receive.buffer.bytes": _NAME_IS.format("receive.buffer.bytes"),
    "socket.send.buffer.bytes": _NAME_IS.format("send.buffer.bytes"),
    "socket.timeout.ms": _NAME_IS.format("request.timeout.ms"),
    "ssl.truststore.location": "names a Java key store; for a PEM file, set ssl.truststore.type=PEM too",
    "ssl.truststore.password": "belongs to a Java key store; set ssl.ca.location, or ssl.truststore.certificates",
    "value.deserializer": "names a Java class; pass value_deserializer=",
    "value.serializer": "names a Java class; pass value_serializer=",
}
