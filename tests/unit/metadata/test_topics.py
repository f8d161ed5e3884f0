from __future__ import annotations

import pytest

from penstock.core.ids import TopicName
from penstock.metadata.config_source import BrokerLayers
from penstock.metadata.image import ClusterImage
from penstock.metadata.topic_config import TopicConfig
from penstock.metadata.topics import (
    NewTopic,
    TopicDefaults,
    decide_creation,
    decide_creations,
    decide_deletion,
    decide_more_partitions,
    is_internal,
    validate_topic_name,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.metadata.images import created, image_with_brokers, topic_id

DEFAULTS = TopicDefaults(partition_count=3, replication_factor=1, config=TopicConfig.inherited(BrokerLayers()))


def image_with_orders(*broker_ids: int) -> ClusterImage:
    image = image_with_brokers(*(broker_ids or (1,)))
    image.apply(created("orders", 1, 2))
    return image


def refused(image: ClusterImage, wanted: NewTopic) -> BrokerError:
    with pytest.raises(BrokerError) as caught:
        decide_creation(image, wanted, DEFAULTS, topic_id(7))
    return caught.value


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "...", "a" * 249, "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    assert validate_topic_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "\u00e9", "a\n", "a\0", "\u0661"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(BrokerError) as caught:
        validate_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_gets_the_brokers_defaults() -> None:
    topic = decide_creation(image_with_brokers(1), NewTopic("orders"), DEFAULTS, topic_id(7)).topic
    assert (topic.name, topic.topic_id, topic.configs) == ("orders", topic_id(7), {})
    assert [entry.index for entry in topic.partitions] == [0, 1, 2]
    for entry in topic.partitions:
        assert (entry.leader, entry.leader_epoch, entry.replicas, entry.isr) == (1, 0, (1,), (1,))


def test_a_topic_gets_what_was_asked_for() -> None:
    wanted = NewTopic("orders", partition_count=5, replication_factor=2, configs=[("retention.ms", "5")])
    topic = decide_creation(image_with_brokers(1, 2, 3), wanted, DEFAULTS, topic_id(7)).topic
    assert len(topic.partitions) == 5
    assert all(len(set(entry.replicas)) == 2 for entry in topic.partitions)
    assert topic.configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (NewTopic("orders"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("new", partition_count=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("new", partition_count=-2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("new", partition_count=10_001), ErrorCode.POLICY_VIOLATION),
        (NewTopic("new", partition_count=2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("new", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("new", replication_factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("new", assignment=[(0, [1])], partition_count=1), ErrorCode.INVALID_REQUEST),
        (NewTopic("new", assignment=[(0, [1])], replication_factor=1), ErrorCode.INVALID_REQUEST),
        (NewTopic("new", assignment=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignment=[(0, [1]), (2, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignment=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", configs=[("retention.ms", None)]), ErrorCode.INVALID_CONFIG),
        (NewTopic("new", assignment=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignment=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignment=[(0, [5])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", configs=[("retention.mss", "1")]), ErrorCode.INVALID_CONFIG),
        (NewTopic("new", configs=[("retention.ms", "x")]), ErrorCode.INVALID_CONFIG),
    ],
)
def test_topics_that_are_not_created(wanted: NewTopic, code: ErrorCode) -> None:
    assert refused(image_with_orders(), wanted).code is code


def test_replicas_of_uneven_numbers_are_refused() -> None:
    error = refused(image_with_brokers(1, 2), NewTopic("new", assignment=[(0, [1]), (1, [1, 2])]))
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_colliding_name_is_refused_with_the_name_that_it_collides_with() -> None:
    image = image_with_brokers(1)
    image.apply(created("a.b", 1))
    error = refused(image, NewTopic("a_b"))
    assert error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b" in error.message


def test_an_unknown_setting_is_answered_with_the_nearest_name() -> None:
    assert (
        "did you mean retention.ms"
        in refused(image_with_orders(), NewTopic("n", configs=[("retention.m", "1")])).message
    )


def test_a_manual_assignment_is_kept() -> None:
    wanted = NewTopic("new", assignment=[(1, [1, 2]), (0, [2, 1])])
    topic = decide_creation(image_with_brokers(1, 2), wanted, DEFAULTS, topic_id(7)).topic
    assert [entry.replicas for entry in topic.partitions] == [(2, 1), (1, 2)]
    assert [entry.leader for entry in topic.partitions] == [2, 1]


def test_the_topics_of_one_request_are_decided_together() -> None:
    wanted = [
        NewTopic("good"),
        NewTopic("bad name"),
        NewTopic("twice"),
        NewTopic("twice"),
        NewTopic("a.b"),
        NewTopic("a_b"),
        NewTopic("orders"),
        NewTopic("large", partition_count=9_990),
        NewTopic("too-large", partition_count=10),
    ]
    ids = iter(range(100, 200))
    decisions = decide_creations(image_with_orders(), wanted, DEFAULTS, lambda: topic_id(next(ids)))
    codes = {name: getattr(decision, "code", None) for name, decision in decisions.items()}
    assert codes == {
        "good": None,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "twice": ErrorCode.INVALID_REQUEST,
        "a.b": None,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "orders": ErrorCode.TOPIC_ALREADY_EXISTS,
        "large": None,
        "too-large": ErrorCode.POLICY_VIOLATION,
    }


def test_deletion_by_name_and_by_id() -> None:
    image = image_with_orders()
    assert decide_deletion(image, name="orders", topic_id=None, delete_enabled=True).topic_id == topic_id(1)
    assert decide_deletion(image, name=None, topic_id=topic_id(1), delete_enabled=True).topic_id == topic_id(1)


def test_deletions_that_are_refused() -> None:
    image = image_with_orders()
    with pytest.raises(BrokerError) as caught:
        decide_deletion(image, name="none", topic_id=None, delete_enabled=True)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(BrokerError) as caught:
        decide_deletion(image, name=None, topic_id=topic_id(9), delete_enabled=True)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(BrokerError) as caught:
        decide_deletion(image, name="orders", topic_id=None, delete_enabled=False)
    assert caught.value.code is ErrorCode.TOPIC_DELETION_DISABLED


def test_partitions_are_added_behind_the_existing_ones() -> None:
    image = image_with_orders(1, 2)
    change = decide_more_partitions(image, "orders", 5, None)
    assert [entry.index for entry in change.partitions] == [2, 3, 4]
    image.apply(change)
    assert len(image.topics[TopicName("orders")].partitions) == 5


def test_partitions_may_be_added_by_hand() -> None:
    change = decide_more_partitions(image_with_orders(1, 2), "orders", 4, [[2], [1]])
    assert [entry.replicas for entry in change.partitions] == [(2,), (1,)]


@pytest.mark.parametrize(
    ("name", "total", "assignments", "code"),
    [
        ("none", 5, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
        ("orders", 3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[1], [1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_are_not_added(
    name: str, total: int, assignments: list[list[int]] | None, code: ErrorCode
) -> None:
    with pytest.raises(BrokerError) as caught:
        decide_more_partitions(image_with_orders(1, 2), name, total, assignments)
    assert caught.value.code is code


def test_internal_topics_are_known() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("orders")
