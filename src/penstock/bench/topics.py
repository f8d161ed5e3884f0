"""Creates topics and waits for their leaders, before and between measurements."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from penstock.bench.measurement import MeasurementError

_ANSWER_S: Final = 10.0


def create_topic(
    bootstrap_servers: str,
    topic: str,
    time_limit_s: float,
    partition_count: int = 1,
    config: Mapping[str, str] | None = None,
    replication_factor: int = 1,
) -> None:
    """Returns when every partition has a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    new = NewTopic(
        topic, num_partitions=partition_count, replication_factor=replication_factor, config=dict(config or {})
    )
    created = admin.create_topics([new], operation_timeout=time_limit_s)
    try:
        created[topic].result(timeout=time_limit_s)
    except KafkaException as error:
        raise MeasurementError(f"cannot create topic {topic}: {error.args[0]}") from error
    _wait_for_leaders(bootstrap_servers, topic, partition_count, time_limit_s)


def alter_topic(bootstrap_servers: str, topic: str, name: str, value: str) -> None:
    """Sets one setting of a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    try:
        admin.incremental_alter_configs([resource])[resource].result(timeout=_ANSWER_S)
    except KafkaException as error:
        raise MeasurementError(f"cannot set {name} of topic {topic}: {error.args[0]}") from error


def _wait_for_leaders(bootstrap_servers: str, topic: str, partition_count: int, time_limit_s: float) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    deadline_s = time.monotonic() + time_limit_s
    led = 0
    while time.monotonic() < deadline_s:
        try:
            partitions = admin.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions.values()
        except KafkaException:
            continue  # the broker is still starting; the deadline bounds the wait
        led = sum(1 for partition in partitions if partition.leader >= 0)
        if led == partition_count:
            return
        time.sleep(0.01)
    raise MeasurementError(f"{led} of {partition_count} partitions of {topic} had a leader after {time_limit_s:g} s")
