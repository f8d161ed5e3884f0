"""Configurations with the properties that other projects document, checked as they are: no error, only named warnings.

Some are a page's own example, some are composed from a reference of properties; placeholders are replaced. The
check is the one of POST /connectors, without the connectors' own look at the database or cluster, which are not theirs
here; those of SQLite and files are asked too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.validation import validate
from penstock.connect.plugins import Plugins

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class Published:
    page: str
    config: Mapping[str, Any]
    warnings: Sequence[str] = ()
    is_asked: bool = False
    """Whether the connector itself can check it here."""


PUBLISHED: Final = {
    # Apache Kafka
    "file source": Published(
        "kafka: config/connect-file-source.properties",
        {
            "name": "local-file-source",
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": "test.txt",
            "topic": "connect-test",
        },
        is_asked=True,
    ),
    "file sink": Published(
        "kafka: config/connect-file-sink.properties",
        {
            "name": "local-file-sink",
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": "test.sink.txt",
            "topics": "connect-test",
        },
        is_asked=True,
    ),
    "file source with transforms": Published(
        "kafka.apache.org/documentation: Kafka Connect, Transformations",
        {
            "name": "local-file-source",
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": "test.txt",
            "topic": "connect-test",
            "transforms": "MakeMap, InsertSource",
            "transforms.MakeMap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.MakeMap.field": "line",
            "transforms.InsertSource.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.InsertSource.static.field": "data_source",
            "transforms.InsertSource.static.value": "test-file-source",
        },
        is_asked=True,
    ),
    "predicates": Published(
        "kafka.apache.org/documentation: Kafka Connect, Predicates; on the file sink",
        {
            "name": "local-file-sink",
            "connector.class": "FileStreamSink",
            "topics": "foo,bar",
            "file": "test.sink.txt",
            "transforms": "FilterFoo,ExtractBar",
            "transforms.FilterFoo.type": "org.apache.kafka.connect.transforms.Filter",
            "transforms.FilterFoo.predicate": "IsFoo",
            "transforms.ExtractBar.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
            "transforms.ExtractBar.field": "other_field",
            "transforms.ExtractBar.predicate": "IsBar",
            "transforms.ExtractBar.negate": "true",
            "predicates": "IsFoo,IsBar",
            "predicates.IsFoo.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
            "predicates.IsFoo.pattern": "foo",
            "predicates.IsBar.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
            "predicates.IsBar.pattern": "bar",
        },
        is_asked=True,
    ),
    "error reporting": Published(
        "kafka.apache.org/documentation: Kafka Connect, Error Reporting; on the file sink",
        {
            "name": "local-file-sink",
            "connector.class": "FileStreamSink",
            "topics": "connect-test",
            "file": "test.sink.txt",
            "errors.retry.timeout": "600000",
            "errors.retry.delay.max.ms": "30000",
            "errors.log.enable": "true",
            "errors.log.include.messages": "true",
            "errors.deadletterqueue.topic.name": "my-connector-errors",
            "errors.tolerance": "all",
        },
        is_asked=True,
    ),
    "mirror source": Published(
        "MirrorMaker 2 in a Connect cluster, from its reference of properties",
        {
            "name": "MirrorSourceConnector",
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "primary",
            "target.cluster.alias": "backup",
            "source.cluster.bootstrap.servers": "vip1:9092",
            "target.cluster.bootstrap.servers": "vip2:9092",
            "tasks.max": "4",
            "topics": ".*",
            "replication.policy.class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
            "refresh.topics.interval.seconds": "60",
        },
    ),
    "mirror source in Strimzi": Published(
        "strimzi.io/docs: examples/mirror-maker/kafka-mirror-maker-2-custom-replication-policy.yaml, as a connector",
        {
            "name": "my-cluster-a->my-cluster-b.MirrorSourceConnector",
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "my-cluster-a",
            "target.cluster.alias": "my-cluster-b",
            "source.cluster.bootstrap.servers": "my-cluster-a-kafka-bootstrap:9092",
            "target.cluster.bootstrap.servers": "my-cluster-b-kafka-bootstrap:9092",
            "tasks.max": 1,
            "topics": ".*",
            "replication.factor": -1,
            "offset-syncs.topic.replication.factor": -1,
            "sync.topic.acls.enabled": "false",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        },
    ),
    "mirror checkpoints in Strimzi": Published(
        "strimzi.io/docs: examples/mirror-maker/kafka-mirror-maker-2-sync-groups.yaml, as a connector",
        {
            "name": "my-cluster-a->my-cluster-b.MirrorCheckpointConnector",
            "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
            "source.cluster.alias": "my-cluster-a",
            "target.cluster.alias": "my-cluster-b",
            "source.cluster.bootstrap.servers": "my-cluster-a-kafka-bootstrap:9092",
            "target.cluster.bootstrap.servers": "my-cluster-b-kafka-bootstrap:9092",
            "groups": ".*",
            "checkpoints.topic.replication.factor": -1,
            "refresh.groups.interval.seconds": 600,
            "sync.group.offsets.enabled": True,
            "sync.group.offsets.interval.seconds": 60,
            "emit.checkpoints.interval.seconds": 60,
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        },
    ),
    "mirror heartbeats": Published(
        "strimzi.io/docs: examples/mirror-maker/kafka-mirror-maker-2.yaml, as a connector",
        {
            "name": "my-cluster-a->my-cluster-b.MirrorHeartbeatConnector",
            "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
            "source.cluster.alias": "my-cluster-a",
            "target.cluster.alias": "my-cluster-b",
            "source.cluster.bootstrap.servers": "my-cluster-a-kafka-bootstrap:9092",
            "target.cluster.bootstrap.servers": "my-cluster-b-kafka-bootstrap:9092",
            "heartbeats.topic.replication.factor": -1,
        },
    ),
    # Confluent
    "Confluent source of SQLite": Published(
        "kafka-connect-jdbc: config/source-quickstart-sqlite.properties",
        {
            "name": "test-source-sqlite-jdbc-autoincrement",
            "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
            "tasks.max": "1",
            "connection.url": "jdbc:sqlite:test.db",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "topic.prefix": "test-sqlite-jdbc-",
        },
        is_asked=True,
    ),
    "Confluent sink of SQLite": Published(
        "kafka-connect-jdbc: config/sink-quickstart-sqlite.properties",
        {
            "name": "test-sink",
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "tasks.max": "1",
            "topics": "orders",
            "connection.url": "jdbc:sqlite:test.db",
            "auto.create": "true",
        },
        is_asked=True,
    ),
    "Confluent source with a driver's property": Published(
        "docs.confluent.io: JDBC source, configuration; connection.* are properties of the driver",
        {
            "name": "source-postgres",
            "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
            "connection.url": "jdbc:postgresql://localhost:5432/db_name",
            "connection.user": "user",
            "connection.password": "secret",
            "connection.loginTimeout": "10",
            "mode": "timestamp+incrementing",
            "timestamp.column.name": "modified",
            "incrementing.column.name": "id",
            "topic.prefix": "postgres-",
            "numeric.mapping": "best_fit",
            "validate.non.null": "false",
        },
        # There is no Java driver that could take it.
        warnings=["connection.loginTimeout: unknown property"],
    ),
    # Aiven
    "Aiven sink of PostgreSQL": Published(
        "aiven.io/docs: Create a JDBC sink connector, a topic with a JSON schema",
        {
            "name": "sink_iot_json_schema",
            "connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector",
            "topics": "iot_measurements",
            "connection.url": "jdbc:postgresql://localhost:5432/defaultdb?sslmode=require",
            "connection.user": "avnadmin",
            "connection.password": "secret",
            "tasks.max": "1",
            "auto.create": "true",
            "auto.evolve": "true",
            "insert.mode": "upsert",
            "delete.enabled": "false",
            "pk.mode": "record_value",
            "pk.fields": "iot_id",
            "value.converter": JSON,
        },
    ),
    "Aiven sink with the user in the URL": Published(
        "jdbc-connector-for-apache-kafka: docs/sink-connector.md, Example",
        {
            "name": "example-jdbc-sink",
            "key.converter": JSON,
            "value.converter": JSON,
            "value.converter.schemas.enable": "true",
            "connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector",
            "connection.url": "jdbc:postgresql://localhost:5432/kafkaconnect?user=postgres&password=mysecretpassword",
            "topics": "messages",
            "insert.mode": "insert",
        },
    ),
    "Aiven source of PostgreSQL": Published(
        "aiven.io/docs: Create a JDBC source connector from PostgreSQL, incremental",
        {
            "name": "jdbc_source_pg_increment",
            "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
            "connection.url": "jdbc:postgresql://demo-pg-myproject.aivencloud.com:13039/defaultdb?sslmode=require",
            "connection.user": "avnadmin",
            "connection.password": "mypassword123",
            "table.whitelist": "public.students,public.exams",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "topic.prefix": "jdbc_source_pg_increment.",
            "tasks.max": "1",
            "poll.interval.ms": "5000",
        },
    ),
    "Aiven sink of MySQL": Published(
        "docs.streamnative.io: Aiven JDBC Kafka Connect Sink, Quick Start; a number and a boolean that are not texts",
        {
            "name": "jdbc-sink",
            "connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector",
            "connection.url": "jdbc:mysql://mysql.default.svc.cluster.local:3306/test",
            "connection.user": "root",
            "connection.password": "secretpassword",
            "insert.mode": "insert",
            "table.name.format": "test_table",
            "topics": "kafka-jdbc-input",
            "value.converter": JSON,
            "value.converter.schemas.enable": False,
            "tasks.max": "1",
        },
    ),
    # Debezium
    "Debezium sink": Published(
        "debezium.io/documentation: JDBC sink connector, example configuration",
        {
            "name": "jdbc-connector",
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "tasks.max": "1",
            "connection.url": "jdbc:postgresql://localhost/db",
            "connection.username": "pguser",
            "connection.password": "pgpassword",
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
            "database.time_zone": "UTC",
            "topics": "orders",
        },
    ),
    "Debezium sink with its pool": Published(
        "debezium.io/documentation: JDBC sink connector, connection properties",
        {
            "name": "jdbc-connector",
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "connection.url": "jdbc:postgresql://localhost/db",
            "connection.username": "pguser",
            "connection.password": "pgpassword",
            "connection.pool.min_size": "5",
            "connection.pool.max_size": "32",
            "connection.pool.acquire_increment": "32",
            "connection.pool.timeout": "1800",
            "use.time.zone": "UTC",
            "quote.identifiers": "true",
            "collection.name.format": "${topic}",
            "batch.size": "500",
            "topics.regex": "orders.*",
        },
    ),
}


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return Plugins()


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_configuration_is_accepted_unchanged(
    plugins: Plugins, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = PUBLISHED[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.db").touch()
    config = {key: as_posted(value) for key, value in published.config.items()}
    found = validate(plugins, config, WorkerDefaults(), asks_connector=published.is_asked)
    assert {value.name: value.errors for _key, value in found.entries if value.errors} == {}, published.page
    assert list(found.warnings) == list(published.warnings), published.page


def as_posted(value: object) -> str:
    """As a worker stores a value of JSON that is no text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
