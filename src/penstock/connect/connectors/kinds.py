"""The connectors of this distribution by the Java class names of configurations. Modules are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FILE: Final = "penstock.connect.connectors.file"
_JDBC: Final = "penstock.connect.connectors.jdbc"
_MIRROR: Final = "penstock.connect.connectors.mirror"

KINDS: Final[Mapping[str, str]] = {
    "org.apache.kafka.connect.file.FileStreamSinkConnector": f"{_FILE}.sink:FileStreamSinkConnector",
    "org.apache.kafka.connect.file.FileStreamSourceConnector": f"{_FILE}.source:FileStreamSourceConnector",
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": f"{_MIRROR}.checkpoint:MirrorCheckpointConnector",
    "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector": f"{_MIRROR}.heartbeat:MirrorHeartbeatConnector",
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": f"{_MIRROR}.source:MirrorSourceConnector",
    "io.confluent.connect.jdbc.JdbcSinkConnector": f"{_JDBC}.sink.connector:JdbcSink",
    "io.aiven.connect.jdbc.JdbcSinkConnector": f"{_JDBC}.sink.connector:JdbcSink",
    "io.debezium.connector.jdbc.JdbcSinkConnector": f"{_JDBC}.sink.debezium:DebeziumJdbcSink",
    "io.confluent.connect.jdbc.JdbcSourceConnector": f"{_JDBC}.source.connector:JdbcSource",
    "io.aiven.connect.jdbc.JdbcSourceConnector": f"{_JDBC}.source.connector:JdbcSource",
}
