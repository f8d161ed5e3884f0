"""Broker settings that only a cluster has: where it keeps its metadata, the session of a broker, and
who leads. Part of
`BROKER_CONFIGS`.

The names that begin `metadata.store` are Penstock's own: Kafka keeps its metadata in a quorum of controllers.
"""

from __future__ import annotations

from typing import Final

from penstock.metadata.config_definition import ConfigDefinition, ConfigType

METADATA_STORE: Final = "metadata.store"

_define = ConfigDefinition
# fmt: off
CLUSTER_DEFINITIONS: Final = (
    _define(METADATA_STORE, ConfigType.STRING, None,
            "Where a cluster keeps its metadata: etcd://host:port[,host:port...][/prefix]; unset means that this "
            "broker is alone, and keeps its own."),
    _define("metadata.store.user", ConfigType.STRING, None,
            "The user as whom the broker authenticates to etcd."),
    _define("metadata.store.password.file", ConfigType.STRING, None,
            "The file whose first line is the user's password."),
    _define("metadata.store.ssl.enable", ConfigType.BOOLEAN, "false",
            "Whether connections to etcd use TLS."),
    _define("metadata.store.ssl.truststore.location", ConfigType.STRING, None,
            "A PEM file with the authorities that etcd's certificate is checked by; unset means those of the system."),
    _define("metadata.store.ssl.keystore.location", ConfigType.STRING, None,
            "A PEM file with the broker's private key and certificate for etcd, if etcd asks for one."),
    _define("broker.session.timeout.ms", ConfigType.INT, "9000",
            "How long a broker of a cluster stays registered without a heartbeat.", minimum=1000),
    _define("broker.heartbeat.interval.ms", ConfigType.INT, "2000",
            "How often a broker of a cluster keeps its session alive.", minimum=50),
    _define("auto.leader.rebalance.enable", ConfigType.BOOLEAN, "true",
            "Whether the controller gives the lead back to preferred replicas that are in sync."),
    _define("leader.imbalance.check.interval.seconds", ConfigType.LONG, "300",
            "How often the controller looks for partitions that another replica than the preferred one leads.",
            minimum=1),
)
# fmt: on
