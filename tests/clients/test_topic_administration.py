"""Topics are created, described, changed and deleted by clients, and another client sees the change."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.clients.conftest import NewTopic
from tests.clients.interface import EARLIEST, TOPIC_ALREADY_EXISTS, KafkaClient, RefusedError
from tests.clients.records import numbered
from tests.clients.waiting import eventually
from tests.conftest import RunningBroker

pytestmark = pytest.mark.clients


@pytest.mark.feature("create topic")
def test_create_topic(client: KafkaClient, reference: KafkaClient) -> None:
    topic = f"matrix-{uuid4().hex[:12]}"
    client.create_topic(topic, 3, {"retention.ms": "7200000"})
    assert eventually(lambda: topic in reference.list_topics())
    assert reference.partition_count(topic) == 3
    assert reference.describe_config(topic)["retention.ms"] == "7200000"


@pytest.mark.feature("create topic, refused")
def test_create_topic_that_exists(client: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(RefusedError) as refusal:
        client.create_topic(topic, 1, {})
    assert refusal.value.code == TOPIC_ALREADY_EXISTS


@pytest.mark.feature("list topics")
def test_list_topics(client: KafkaClient, new_topic: NewTopic) -> None:
    topics = {new_topic(), new_topic()}
    assert topics <= client.list_topics()


@pytest.mark.feature("describe topic")
def test_describe_topic(client: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=5)
    assert client.partition_count(topic) == 5


@pytest.mark.feature("add partitions")
def test_add_partitions(client: KafkaClient, reference: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    client.add_partitions(topic, 4)
    assert eventually(lambda: reference.partition_count(topic) == 4)


@pytest.mark.feature("describe configs")
def test_describe_configs(client: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    described = client.describe_config(topic)
    assert described["cleanup.policy"] == "compact"
    assert described["segment.bytes"] == "1073741824"
    assert described["compression.type"] == "producer"


@pytest.mark.feature("alter configs")
def test_alter_configs(client: KafkaClient, reference: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="7200000")
    client.alter_config(topic, "max.message.bytes", "123456")
    assert eventually(lambda: reference.describe_config(topic)["max.message.bytes"] == "123456")


@pytest.mark.feature("incremental alter configs")
def test_incremental_alter_configs(client: KafkaClient, reference: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="7200000")
    client.alter_config_incrementally(topic, "max.message.bytes", "123456")
    assert eventually(lambda: reference.describe_config(topic)["max.message.bytes"] == "123456")
    assert reference.describe_config(topic)["retention.ms"] == "7200000"


@pytest.mark.feature("delete records")
def test_delete_records(client: KafkaClient, reference: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    reference.produce(topic, 0, numbered(10))
    client.delete_records(topic, 0, 4)
    assert reference.list_offset(topic, 0, EARLIEST) == 4
    remaining = reference.consume(topic, 0, 6, offset=4)
    assert [record.value for record in remaining] == [record.value for record in numbered(10)[4:]]


@pytest.mark.feature("delete topic")
def test_delete_topic(client: KafkaClient, reference: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.delete_topic(topic)
    assert eventually(lambda: topic not in reference.list_topics())


@pytest.mark.feature("describe cluster")
def test_describe_cluster(client: KafkaClient, broker_under_test: RunningBroker) -> None:
    assert client.broker_ports() == [broker_under_test.port]


@pytest.mark.feature("describe log dirs")
def test_describe_log_dirs(
    client: KafkaClient, reference: KafkaClient, new_topic: NewTopic, broker_under_test: RunningBroker
) -> None:
    topic = new_topic()
    reference.produce(topic, 0, numbered(10))
    on_disk = sum(segment.stat().st_size for segment in (broker_under_test.data_dir / f"{topic}-0").glob("*.log"))
    assert client.log_bytes(topic, 0) == on_disk
