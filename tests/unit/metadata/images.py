"""Images and changes that several tests of this package begin with."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.ids import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName
from penstock.metadata.image import (
    BrokerImage,
    BrokerRegistered,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicCreated,
    TopicImage,
)


def image_with_brokers(*broker_ids: int) -> ClusterImage:
    image = ClusterImage("cluster")
    for broker_id in broker_ids:
        image.apply(registered(broker_id))
    return image


def registered(broker_id: int) -> BrokerRegistered:
    endpoints = {"PLAINTEXT": Endpoint("127.0.0.1", 9092 + broker_id)}
    return BrokerRegistered(BrokerImage(BrokerId(broker_id), endpoints))


def partition(index: int, broker_id: int = 1) -> PartitionImage:
    brokers = (BrokerId(broker_id),)
    return PartitionImage(PartitionIndex(index), brokers[0], LeaderEpoch(0), brokers, brokers)


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def created(name: str, number: int, partition_count: int = 1, configs: Mapping[str, str] | None = None) -> TopicCreated:
    partitions = tuple(partition(index) for index in range(partition_count))
    return TopicCreated(TopicImage(TopicName(name), topic_id(number), partitions, configs or {}))
