from __future__ import annotations

import json

import pytest

from penstock.core.ids import BrokerId, LeaderEpoch, PartitionIndex, ProducerId, TopicName
from penstock.core.quotas import QuotaEntity
from penstock.metadata.change_records import decode_change, encode_change
from penstock.metadata.image import (
    BrokerConfigChanged,
    BrokerImage,
    BrokerRegistered,
    ClientMetricsChanged,
    ClientQuotaChanged,
    ClusterImage,
    DurableChange,
    Endpoint,
    GroupConfigChanged,
    InvalidChange,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)
from tests.unit.metadata.images import created, image_with_brokers, partition, topic_id

ORDERS = TopicName("orders")
EVERY_KIND: list[DurableChange] = [
    created("orders", 1, 2, {"retention.ms": "5"}),
    created("payments", 2),
    PartitionsAdded(topic_id(1), (partition(2), partition(3))),
    PartitionChanged(topic_id(1), PartitionIndex(3), BrokerId(1), LeaderEpoch(2), (BrokerId(1),)),
    TopicConfigChanged(topic_id(1), {"retention.ms": "6", "segment.ms": "7"}),
    BrokerConfigChanged(None, {"message.max.bytes": "8"}),
    BrokerConfigChanged(BrokerId(1), {"message.max.bytes": "9"}),
    GroupConfigChanged("readers", {"consumer.session.timeout.ms": "45000"}),
    ClientMetricsChanged("latency", {"interval.ms": "100"}),
    ClientQuotaChanged(QuotaEntity("alice", ""), {"producer_byte_rate": 1024.0}),
    ClientQuotaChanged(QuotaEntity(ip="10.0.0.1"), {"connection_creation_rate": 5.0}),
    ProducerIdsAllocated(ProducerId(1000)),
    TopicDeleted(topic_id(2)),
]


def leadership(topic: int, index: int, *, leader: int, epoch: int, isr: tuple[int, ...] = (1,)) -> PartitionChanged:
    in_sync = tuple(BrokerId(broker_id) for broker_id in isr)
    return PartitionChanged(topic_id(topic), PartitionIndex(index), BrokerId(leader), LeaderEpoch(epoch), in_sync)


def image_after(*changes: DurableChange) -> ClusterImage:
    image = image_with_brokers(1)
    for change in changes:
        image.apply(change)
    return image


def test_changes_add_up() -> None:
    image = image_after(*EVERY_KIND)
    assert list(image.topics) == ["orders"]
    orders = image.topics[ORDERS]
    assert image.topics_by_id == {topic_id(1): orders}
    assert [entry.index for entry in orders.partitions] == [0, 1, 2, 3]
    assert [entry.leader_epoch for entry in orders.partitions] == [0, 0, 0, 2]
    assert orders.configs == {"retention.ms": "6", "segment.ms": "7"}
    assert image.dynamic_configs_of(None) == {"message.max.bytes": "8"}
    assert image.dynamic_configs_of(BrokerId(1)) == {"message.max.bytes": "9"}
    assert image.dynamic_configs_of(BrokerId(2)) == {}
    assert image.next_producer_id == 1000
    assert image.controller_id == 1


def test_the_version_tells_that_something_changed() -> None:
    image = image_with_brokers(1)
    before = image.version
    image.apply(created("orders", 1))
    assert image.version > before


def test_the_live_changes_lead_to_the_same_image() -> None:
    image = image_after(*EVERY_KIND)
    again = image_after(*image.live_changes())
    assert again.topics == image.topics
    assert again.topics_by_id == image.topics_by_id
    assert again.dynamic_broker_configs == image.dynamic_broker_configs
    assert again.next_producer_id == image.next_producer_id


def test_an_emptied_broker_configuration_is_no_longer_alive() -> None:
    image = image_after(*EVERY_KIND, BrokerConfigChanged(None, {}))
    assert None not in image.dynamic_broker_configs


@pytest.mark.parametrize(
    "change",
    [
        created("orders", 9),
        created("another", 1),
        TopicCreated(TopicImage(TopicName("gap"), topic_id(9), (partition(1),))),
        TopicDeleted(topic_id(9)),
        PartitionsAdded(topic_id(9), (partition(0),)),
        PartitionsAdded(topic_id(1), (partition(5),)),
        leadership(9, 0, leader=1, epoch=1),
        leadership(1, 7, leader=1, epoch=1),
        leadership(1, 3, leader=1, epoch=1),
        leadership(1, 0, leader=-1, epoch=0),
        leadership(1, 0, leader=2, epoch=1),
        leadership(1, 0, leader=1, epoch=1, isr=(1, 2)),
        TopicConfigChanged(topic_id(9), {}),
        ProducerIdsAllocated(ProducerId(999)),
    ],
)
def test_a_change_that_does_not_fit_is_refused_and_changes_nothing(change: DurableChange) -> None:
    image = image_after(*EVERY_KIND)
    version, topics = image.version, dict(image.topics)
    with pytest.raises(InvalidChange):
        image.apply(change)
    assert (image.version, image.topics, image.next_producer_id) == (version, topics, 1000)


def test_names_that_differ_in_dots_and_underscores_collide_until_the_topic_is_deleted() -> None:
    image = image_after(created("a.b_c", 1))
    assert image.colliding_topic(TopicName("a_b.c")) == "a.b_c"
    assert image.colliding_topic(TopicName("a-b-c")) is None
    with pytest.raises(InvalidChange):
        image.apply(created("a_b_c", 2))
    image.apply(TopicDeleted(topic_id(1)))
    assert image.colliding_topic(TopicName("a_b.c")) is None
    image.apply(created("a_b_c", 2))


@pytest.mark.parametrize("change", EVERY_KIND, ids=lambda change: type(change).__name__)
def test_changes_survive_json(change: DurableChange) -> None:
    assert decode_change(json.loads(json.dumps(encode_change(change)))) == change


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        {"type": "unheard_of"},
        {"type": "topic_deleted"},
        {"type": "topic_deleted", "topic_id": "short"},
        {"type": "topic_deleted", "topic_id": 7},
        {"type": "producer_ids_allocated", "next_producer_id": "7"},
        {"type": "producer_ids_allocated", "next_producer_id": True},
        {"type": "broker_config_changed", "broker_id": None, "configs": {"a": 1}},
        {"type": "broker_config_changed", "broker_id": None, "configs": []},
        {"type": "partitions_added", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [1]},
        {"type": "partitions_added", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"index": 1}]},
    ],
)
def test_what_is_not_a_change_is_refused(record: object) -> None:
    with pytest.raises(ValueError):
        decode_change(record)


def test_brokers_are_found_by_the_name_of_a_listener() -> None:
    image = ClusterImage("cluster")
    inside, outside = Endpoint("10.0.0.1", 9092), Endpoint("broker.example", 9093)
    image.apply(BrokerRegistered(BrokerImage(BrokerId(1), {"INTERNAL": inside, "EXTERNAL": outside})))
    image.apply(BrokerRegistered(BrokerImage(BrokerId(2), {"INTERNAL": Endpoint("10.0.0.2", 9092)})))
    assert [(broker.broker_id, endpoint) for broker, endpoint in image.endpoints("EXTERNAL")] == [(1, outside)]
    assert [broker.broker_id for broker, _ in image.endpoints("INTERNAL")] == [1, 2]
    assert image.live_changes() == []


def test_a_partition_may_be_left_without_a_leader_and_get_one_in_a_later_epoch() -> None:
    image = image_after(created("orders", 1))
    image.apply(leadership(1, 0, leader=-1, epoch=1))
    [partition] = image.topics[ORDERS].partitions
    assert (partition.leader, partition.leader_epoch, partition.isr) == (-1, 1, (1,))
    image.apply(leadership(1, 0, leader=1, epoch=2))
    [partition] = image.topics[ORDERS].partitions
    assert (partition.leader, partition.leader_epoch) == (1, 2)
    assert image.topics_by_id[topic_id(1)] is image.topics[ORDERS]
