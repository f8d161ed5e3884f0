"""Images and changes that several tests of this package begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.core.ids import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName
from penstock.metadata.changes import BrokerImage, BrokerRegistered, Endpoint, PartitionImage, TopicCreated, TopicImage
from penstock.metadata.image import ClusterImage


def image_with_brokers(*broker_ids: int) -> ClusterImage:
    image = ClusterImage("cluster")
    for broker_id in broker_ids:
        image.apply(registered(broker_id))
    return image


def registered(broker_id: int) -> BrokerRegistered:
    """In an epoch of the same number."""
    endpoints = {"PLAINTEXT": Endpoint("127.0.0.1", 9092 + broker_id)}
    return BrokerRegistered(BrokerImage(BrokerId(broker_id), endpoints, epoch=broker_id, incarnation=b"%d" % broker_id))


def partition(index: int, broker_id: int = 1) -> PartitionImage:
    brokers = (BrokerId(broker_id),)
    return PartitionImage(PartitionIndex(index), brokers[0], LeaderEpoch(0), brokers, brokers)


def led_by(before: PartitionImage, leader: int, epoch: int, isr: tuple[int, ...] | None = None) -> PartitionImage:
    """The partition under another leader and epoch, with these in-sync replicas or those it had."""
    in_sync = before.isr if isr is None else tuple(BrokerId(broker_id) for broker_id in isr)
    return replace(
        before,
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        isr=in_sync,
        partition_epoch=before.partition_epoch + 1,
    )


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def created(name: str, number: int, partition_count: int = 1, configs: Mapping[str, str] | None = None) -> TopicCreated:
    partitions = tuple(partition(index) for index in range(partition_count))
    return TopicCreated(TopicImage(TopicName(name), topic_id(number), partitions, configs or {}))
