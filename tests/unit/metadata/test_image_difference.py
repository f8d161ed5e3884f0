"""The changes from one image to a later one: all that a subscriber needs, and the later image in place."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.core.ids import BrokerId, PartitionIndex, ProducerId
from penstock.core.quotas import QuotaEntity
from penstock.metadata.changes import (
    AclAdded,
    AclRemoved,
    BrokerConfigChanged,
    BrokerGone,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClientMetricsChanged,
    ClientQuotaChanged,
    ControllerElected,
    GroupConfigChanged,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicConfigChanged,
    TopicDeleted,
)
from penstock.metadata.image import ClusterImage
from penstock.metadata.image_difference import become, difference
from tests.unit.metadata.images import created, image_with_brokers, led_by, partition, registered, topic_id

_ACL = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
    "User:a",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)
_CREDENTIAL = ScramCredential(ScramMechanism.SCRAM_SHA_256, 4096, b"salt", b"stored", b"server")
_QUOTA = QuotaEntity(user="a", client_id=None, ip=None)


def image() -> ClusterImage:
    before = image_with_brokers(1, 2)
    for change in (
        created("orders", 1, 2),
        created("bills", 2),
        AclAdded(b"1", _ACL),
        ScramCredentialSet("a", _CREDENTIAL),
        BrokerConfigChanged(None, {"message.max.bytes": "5"}),
        ClientQuotaChanged(_QUOTA, {"producer_byte_rate": 1.0}),
    ):
        before.apply(change)
    return before


def assert_difference(before: ClusterImage, changes: list[Change], expected: list[Change]) -> None:
    after = before.copy()
    for change in changes:
        after.apply(change)
    found = difference(before, after)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    version = before.version
    become(before, after)
    assert difference(before, after) == []
    assert before.version > version


def test_equal_images_do_not_differ() -> None:
    assert_difference(image(), [], [])


def test_every_change_is_its_own_difference() -> None:
    changes: list[Change] = [
        BrokerGone(BrokerId(2), 2),
        registered(3),
        ControllerElected(BrokerId(3), 1),
        TopicDeleted(topic_id(2)),
        created("new", 3),
        PartitionsAdded(topic_id(1), (partition(2),)),
        PartitionChanged(topic_id(1), led_by(partition(0), -1, 1, ())),
        TopicConfigChanged(topic_id(1), {"retention.ms": "1"}),
        AclRemoved(b"1"),
        AclAdded(b"2", _ACL),
        ScramCredentialRemoved("a", ScramMechanism.SCRAM_SHA_256),
        ScramCredentialSet("b", _CREDENTIAL),
        BrokerConfigChanged(None, {}),
        BrokerConfigChanged(BrokerId(1), {"message.max.bytes": "6"}),
        GroupConfigChanged("g", {"consumer.session.timeout.ms": "50000"}),
        ClientMetricsChanged("m", {"interval.ms": "100"}),
        ClientQuotaChanged(_QUOTA, {}),
        ProducerIdsAllocated(ProducerId(1000)),
    ]
    assert_difference(image(), changes, changes)


def test_what_was_undone_is_not_told() -> None:
    configured, unconfigured = (BrokerConfigChanged(BrokerId(2), configs) for configs in ({"a": "b"}, {}))
    assert_difference(image(), [created("brief", 3), configured, TopicDeleted(topic_id(3)), unconfigured], [])


def test_a_topic_that_was_made_again_is_another_one() -> None:
    changes: list[Change] = [TopicDeleted(topic_id(1)), created("orders", 9)]
    assert_difference(image(), changes, changes)


def test_several_changes_of_one_partition_are_its_last_state() -> None:
    once = led_by(partition(1), -1, 1, ())
    twice = led_by(once, 1, 2, (1,))
    states = [PartitionChanged(topic_id(1), once), PartitionChanged(topic_id(1), twice)]
    assert twice.index == PartitionIndex(1)
    assert_difference(image(), [*states], [states[1]])


def test_a_broker_that_came_back_is_its_new_registration() -> None:
    again = BrokerRegistered(replace(registered(2).broker, epoch=7))
    assert_difference(image(), [BrokerGone(BrokerId(2), 2), again], [again])


def test_a_broker_that_left_for_good_is_gone_and_unregistered() -> None:
    changes: list[Change] = [BrokerGone(BrokerId(2), 2), BrokerUnregistered(BrokerId(2))]
    assert_difference(image(), changes, changes)
