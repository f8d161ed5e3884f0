from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.core.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionIndex, ProducerId, TopicName
from penstock.core.quotas import QuotaEntity
from penstock.metadata.change_records import decode_change, encode_change
from penstock.metadata.changes import (
    AclAdded,
    AclRemoved,
    BrokerChange,
    BrokerConfigChanged,
    BrokerGone,
    BrokerImage,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    ClientMetricsChanged,
    ClientQuotaChanged,
    ControllerElected,
    DurableChange,
    Endpoint,
    GroupConfigChanged,
    PartitionChanged,
    PartitionImage,
    PartitionsAdded,
    ProducerIdsAllocated,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)
from penstock.metadata.image import ClusterImage, InvalidChange
from tests.unit.metadata.images import created, image_with_brokers, led_by, partition, topic_id

ORDERS = TopicName("orders")
READ_ORDERS = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED),
    "User:alice",
    "10.0.0.1",
    AclOperation.READ,
    AclPermission.ALLOW,
)
NO_GROUPS = READ_ORDERS._replace(
    pattern=ResourcePattern(ResourceType.GROUP, "*"), operation=AclOperation.ALL, permission=AclPermission.DENY
)
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
ALICE_256 = ScramCredential(SHA_256, 4096, b"salt", stored_key=b"\x00stored", server_key=b"\xffserver")
ALICE_512 = ScramCredential(SHA_512, 8192, b"salt", stored_key=b"stored", server_key=b"server")
ACL_ADDED = AclAdded(bytes(15) + b"1", READ_ORDERS)
CREDENTIAL_SET = ScramCredentialSet("alice", ALICE_256)
EVERY_KIND: list[DurableChange] = [
    created("orders", 1, 2, {"retention.ms": "5"}),
    created("payments", 2),
    PartitionsAdded(topic_id(1), (partition(2), partition(3))),
    PartitionChanged(topic_id(1), led_by(partition(3), 1, 2)),
    TopicConfigChanged(topic_id(1), {"retention.ms": "6", "segment.ms": "7"}),
    BrokerConfigChanged(None, {"message.max.bytes": "8"}),
    BrokerConfigChanged(BrokerId(1), {"message.max.bytes": "9"}),
    GroupConfigChanged("readers", {"consumer.session.timeout.ms": "45000"}),
    ClientMetricsChanged("latency", {"interval.ms": "100"}),
    ClientQuotaChanged(QuotaEntity("alice", ""), {"producer_byte_rate": 1024.0}),
    ClientQuotaChanged(QuotaEntity(ip="10.0.0.1"), {"connection_creation_rate": 5.0}),
    ProducerIdsAllocated(ProducerId(1000)),
    TopicDeleted(topic_id(2)),
    ACL_ADDED,
    AclAdded(bytes(15) + b"2", NO_GROUPS),
    AclRemoved(bytes(15) + b"2"),
    CREDENTIAL_SET,
    ScramCredentialSet("alice", ALICE_512),
    ScramCredentialRemoved("alice", SHA_512),
]


def leadership(topic: int, index: int, *, leader: int, epoch: int, isr: tuple[int, ...] = (1,)) -> PartitionChanged:
    return PartitionChanged(topic_id(topic), led_by(partition(index), leader, epoch, isr))


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
    assert image.acls == {bytes(15) + b"1": READ_ORDERS}
    assert image.acl_ids == {READ_ORDERS: bytes(15) + b"1"}
    assert image.scram_credentials == {("alice", SHA_256): ALICE_256}


def test_a_copy_is_equal_and_does_not_follow() -> None:
    image = image_after(*EVERY_KIND)
    copied = image.copy()
    assert (copied.acls, copied.acl_ids) == (image.acls, image.acl_ids)
    assert copied.scram_credentials == image.scram_credentials
    copied.apply(AclRemoved(bytes(15) + b"1"))
    copied.apply(ScramCredentialRemoved("alice", SHA_256))
    assert image.acls
    assert image.acl_ids
    assert image.scram_credentials


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
    assert (again.acls, again.acl_ids) == (image.acls, image.acl_ids)
    assert again.scram_credentials == image.scram_credentials


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
        PartitionChanged(topic_id(1), replace(partition(0), leader_epoch=LeaderEpoch(1))),
        PartitionChanged(topic_id(1), replace(partition(0), elr=(BrokerId(1),), partition_epoch=1)),
        PartitionChanged(topic_id(1), replace(partition(0), adding=(BrokerId(2),), partition_epoch=1)),
        PartitionChanged(topic_id(1), replace(partition(0), removing=(BrokerId(2),), partition_epoch=1)),
        PartitionChanged(topic_id(1), replace(partition(0), elr=(BrokerId(2),), partition_epoch=1)),
        TopicConfigChanged(topic_id(9), {}),
        ProducerIdsAllocated(ProducerId(999)),
        AclAdded(bytes(15) + b"1", NO_GROUPS),
        AclAdded(bytes(15) + b"9", READ_ORDERS),
        AclRemoved(bytes(15) + b"2"),
        ScramCredentialRemoved("alice", SHA_512),
        ScramCredentialRemoved("bob", SHA_256),
    ],
)
def test_a_change_that_does_not_fit_is_refused_and_changes_nothing(change: DurableChange) -> None:
    image = image_after(*EVERY_KIND)
    version, topics = image.version, dict(image.topics)
    security = (dict(image.acls), dict(image.acl_ids), dict(image.scram_credentials))
    with pytest.raises(InvalidChange):
        image.apply(change)
    assert (image.acls, image.acl_ids, image.scram_credentials) == security
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
        encode_change(ACL_ADDED) | {"operation": 99},
        encode_change(ACL_ADDED) | {"permission_type": "ALLOW"},
        encode_change(ACL_ADDED) | {"id": "short"},
        encode_change(ACL_ADDED) | {"host": None},
        encode_change(CREDENTIAL_SET) | {"mechanism": 3},
        encode_change(CREDENTIAL_SET) | {"salt": "?"},
        {"type": "user_scram_credential", "name": "alice", "mechanism": 1},
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
    [leaderless] = image.topics[ORDERS].partitions
    assert (leaderless.leader, leaderless.leader_epoch, leaderless.isr) == (-1, 1, (1,))
    image.apply(PartitionChanged(topic_id(1), led_by(leaderless, 1, 2)))
    [led] = image.topics[ORDERS].partitions
    assert (led.leader, led.leader_epoch, led.partition_epoch) == (1, 2, 2)
    assert image.topics_by_id[topic_id(1)] is image.topics[ORDERS]


TWO = BrokerId(2)


def broker(broker_id: int, epoch: int, incarnation: bytes = b"one", rack: str | None = None) -> BrokerImage:
    endpoints = {"PLAINTEXT": Endpoint("127.0.0.1", 9092 + broker_id)}
    return BrokerImage(BrokerId(broker_id), endpoints, rack, epoch, incarnation)


EVERY_KIND_OF_BROKERS: list[BrokerChange] = [
    BrokerRegistered(broker(2, 1)),
    BrokerRegistered(broker(3, 2, rack="here")),
    ControllerElected(BrokerId(2), 1),
    BrokerShuttingDown(BrokerId(3), 2),
    BrokerRegistered(broker(4, 3)),
    BrokerGone(BrokerId(4), 3),
    BrokerRegistered(broker(5, 4)),
    BrokerUnregistered(BrokerId(5)),
]


def image_of_brokers(*changes: BrokerChange) -> ClusterImage:
    image = ClusterImage("cluster")
    for change in changes or EVERY_KIND_OF_BROKERS:
        image.apply(change)
    return image


def test_a_broker_that_is_gone_is_known_until_it_is_unregistered() -> None:
    image = image_of_brokers()
    assert list(image.brokers) == [2, 3]
    assert {known.broker_id: known.epoch for known in image.known_brokers.values()} == {2: 1, 3: 2, 4: 3}
    assert image.brokers[BrokerId(3)].is_shutting_down
    assert image.last_broker_epoch == 4


@pytest.mark.parametrize("change", [BrokerGone(TWO, 1), BrokerShuttingDown(TWO, 1)])
def test_what_is_said_about_an_earlier_registration_changes_nothing(change: BrokerChange) -> None:
    image = image_of_brokers(BrokerRegistered(broker(2, 1)), BrokerRegistered(broker(2, 2)), change)
    assert image.brokers == {TWO: broker(2, 2)}


@pytest.mark.parametrize("end", [BrokerGone(TWO, 1), BrokerUnregistered(TWO), BrokerRegistered(broker(2, 4))])
def test_a_controller_whose_registration_is_over_is_no_longer_elected(end: BrokerChange) -> None:
    image = image_of_brokers()
    assert (image.controller, image.controller_id) == (2, 2)
    image.apply(end)
    assert image.controller == NO_LEADER
    assert image.controller_id == min(image.brokers)


@pytest.mark.parametrize(
    "change",
    [
        ControllerElected(BrokerId(3), 1),
        ControllerElected(BrokerId(4), 2),
        BrokerRegistered(broker(3, 1)),
        BrokerUnregistered(BrokerId(5)),
    ],
)
def test_a_change_of_brokers_that_does_not_fit_is_refused(change: BrokerChange) -> None:
    image = image_of_brokers()
    before = image.copy()
    with pytest.raises(InvalidChange):
        image.apply(change)
    assert brokers_of(image) == brokers_of(before)


def test_the_live_changes_of_brokers_lead_to_the_same_image() -> None:
    image = image_of_brokers()
    again = image_of_brokers(*image.live_broker_changes())
    assert brokers_of(again) == brokers_of(image)


def brokers_of(image: ClusterImage) -> tuple[object, ...]:
    return image.brokers, image.known_brokers, image.controller, image.controller_epoch, image.last_broker_epoch


@pytest.mark.parametrize("change", EVERY_KIND_OF_BROKERS)
def test_changes_of_brokers_survive_json(change: BrokerChange) -> None:
    assert decode_change(json.loads(json.dumps(encode_change(change)))) == change


def test_every_field_of_a_partition_survives_json() -> None:
    one, two, three = BrokerId(1), BrokerId(2), BrokerId(3)
    full = PartitionImage(
        PartitionIndex(3), NO_LEADER, LeaderEpoch(7), (one, two, three), (), (one,), two, (three,), (one,), 9
    )
    change = PartitionChanged(topic_id(1), full)
    assert decode_change(json.loads(json.dumps(encode_change(change)))) == change


def test_a_partition_of_one_broker_is_written_as_before_there_were_several() -> None:
    record = encode_change(PartitionsAdded(topic_id(1), (partition(0),)))
    assert record["partitions"] == [{"index": 0, "leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1]}]
