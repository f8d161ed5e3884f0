from __future__ import annotations

import pytest

from penstock.connect.connectors.mirror.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy


def test_remote_topics_carry_the_alias_of_each_cluster_that_they_came_over() -> None:
    policy = DefaultReplicationPolicy("a")
    assert policy.remote_topic("a", "orders") == "a.orders"
    assert policy.remote_topic("a", "b.orders") == "a.b.orders"
    assert (policy.topic_source("a.b.orders"), policy.upstream_topic("a.b.orders")) == ("a", "b.orders")
    assert policy.original_topic("a.b.orders") == "orders"
    assert policy.topic_source("orders") is None
    assert policy.topic_source("orders.") is None


def test_another_separator() -> None:
    policy = DefaultReplicationPolicy("a", "__")
    assert policy.remote_topic("a", "orders") == "a__orders"
    assert policy.upstream_topic("a__orders") == "orders"
    assert policy.offset_syncs_topic("b") == "mm2-offset-syncs__b__internal"
    assert policy.checkpoints_topic("a") == "a__checkpoints__internal"
    assert DefaultReplicationPolicy("a", "__", False).checkpoints_topic("a") == "a.checkpoints.internal"


def test_a_topic_that_was_on_the_target_does_not_go_there_again() -> None:
    policy = DefaultReplicationPolicy("a")
    assert policy.is_cycle("b.orders", "b")
    assert policy.is_cycle("c.b.orders", "b")
    assert not policy.is_cycle("orders", "b")
    assert not policy.is_cycle("c.orders", "b")


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", ".hidden", "mm2-offset-syncs.b.internal", "a.checkpoints.internal"]
)
def test_internal_topics(topic: str) -> None:
    assert DefaultReplicationPolicy("a").is_internal_topic(topic)
    assert not DefaultReplicationPolicy("a").is_internal_topic(f"x{topic}x")


def test_names_stay_under_the_identity_policy_but_those_of_heartbeats() -> None:
    policy = IdentityReplicationPolicy("a")
    assert policy.remote_topic("a", "orders") == "orders"
    assert policy.remote_topic("a", "heartbeats") == "a.heartbeats"
    assert policy.topic_source("orders") == "a"
    assert policy.is_heartbeats_topic("b.heartbeats")
    assert not policy.is_cycle("orders", "b")
    assert policy.is_cycle("b.heartbeats", "b")
