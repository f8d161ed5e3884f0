from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.ids import BrokerId, PartitionIndex
from penstock.metadata import registration
from penstock.metadata.changes import BrokerImage, BrokerRegistered, BrokerShuttingDown, BrokerUnregistered
from penstock.metadata.image import ClusterImage
from penstock.metadata.registration import (
    decide_registration,
    decide_shutdown,
    decide_unregistration,
    is_registered,
    may_stop,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.metadata.clusters import INHERITED, ONE, ORDERS, THREE, TWO, apply, cluster, partition_of, shown, state
from tests.unit.metadata.images import registered


def returning(broker_id: int, incarnation: bytes = b"another process") -> BrokerImage:
    return replace(registered(broker_id).broker, epoch=0, incarnation=incarnation)


def register(image: ClusterImage, broker: BrokerImage, clean_shutdown_epoch: int | None = None) -> str:
    apply(image, decide_registration(image, broker, clean_shutdown_epoch, INHERITED))
    return shown(partition_of(image))


def test_epochs_grow_with_every_registration_of_the_cluster() -> None:
    image = ClusterImage("cluster")
    for broker_id in (1, 2, 1):
        broker = returning(broker_id, b"the same")
        apply(image, decide_registration(image, broker, None, INHERITED))
    assert {broker.broker_id: broker.epoch for broker in image.brokers.values()} == {1: 3, 2: 2}
    apply(image, [*decide_shutdown(image, ONE, 3, INHERITED)])
    register_again = decide_registration(image, returning(1, b"the same"), None, INHERITED)
    assert register_again == [BrokerRegistered(replace(returning(1, b"the same"), epoch=4))]


def test_after_an_unclean_end_a_broker_is_relied_upon_nowhere() -> None:
    assert register(cluster(state(1, "13", elr="2"), live="13", min_isr=3), returning(2)) == "1/0 isr=13 elr="
    assert register(cluster(state(1, "123"), live="13"), returning(2)) == "1/0 isr=13 elr="


def test_an_unclean_end_of_the_only_complete_replica_loses_no_time() -> None:
    assert register(cluster(state(1, "1"), live="23"), returning(1)) == "1/1 isr=1 elr="
    assert register(cluster(state(-1, "", elr="1", last=1), live="23"), returning(1)) == "1/1 isr=1 elr="


@pytest.mark.parametrize(("epoch", "expected"), [(2, "1/0 isr=123 elr="), (1, "1/0 isr=13 elr=")])
def test_the_marker_of_a_clean_shutdown_counts_in_the_last_epoch_only(epoch: int, expected: str) -> None:
    assert register(cluster(state(1, "123"), live="13"), returning(2), epoch) == expected


def test_a_process_that_lost_its_lease_did_not_end() -> None:
    image = cluster(state(1, "123"), live="13")
    assert register(image, returning(2, b"2")) == "1/0 isr=123 elr="
    assert is_registered(image, TWO, b"2")
    assert not is_registered(image, TWO, b"3")


def test_a_node_id_in_use_is_refused() -> None:
    with pytest.raises(BrokerError) as refused:
        register(cluster(state(1, "123")), returning(2))
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_many_partitions_are_left_before_the_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "PARTITIONS_PER_PROPOSAL_MAX", 2)
    image = cluster(state(1, "1"), live="23")
    topic = image.topics[ORDERS]
    partitions = tuple(replace(topic.partitions[0], index=PartitionIndex(index)) for index in range(5))
    image.topics[ORDERS] = image.topics_by_id[topic.topic_id] = replace(topic, partitions=partitions)
    proposals = 0
    while not is_registered(image, ONE, b"another process"):
        assert ONE not in image.brokers
        changes = decide_registration(image, returning(1), None, INHERITED)
        assert len(changes) <= 3
        apply(image, changes)
        proposals += 1
    assert proposals == 3
    assert all(ONE not in partition.elr for partition in image.topics[ORDERS].partitions)


def test_a_shutdown_moves_what_others_can_lead() -> None:
    image = cluster(state(1, "123"))
    assert not may_stop(image, ONE)
    changes = decide_shutdown(image, ONE, 1, INHERITED)
    assert changes[0] == BrokerShuttingDown(ONE, 1)
    assert shown(partition_of(apply(image, changes))) == "2/1 isr=23 elr="
    assert may_stop(image, ONE)
    assert decide_shutdown(image, ONE, 1, INHERITED) == []


def test_a_shutdown_does_not_wait_for_what_others_cannot_lead() -> None:
    image = cluster(state(1, "1"))
    assert decide_shutdown(image, ONE, 1, INHERITED) == [BrokerShuttingDown(ONE, 1)]
    assert may_stop(image, ONE)


def test_a_shutdown_in_an_old_epoch_is_refused() -> None:
    with pytest.raises(BrokerError) as refused:
        decide_shutdown(cluster(state(1, "1")), ONE, 9, INHERITED)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_nothing_waits_for_an_unregistered_broker() -> None:
    image = cluster(state(1, "1", elr="23"), live="12", min_isr=3)
    changes = decide_unregistration(image, THREE, INHERITED)
    assert changes[-1] == BrokerUnregistered(THREE)
    assert shown(partition_of(apply(image, changes))) == "1/0 isr=1 elr=2"
    assert THREE not in image.known_brokers


@pytest.mark.parametrize(
    ("broker_id", "code"), [(2, ErrorCode.INVALID_REQUEST), (9, ErrorCode.BROKER_ID_NOT_REGISTERED)]
)
def test_only_a_broker_that_is_down_is_unregistered(broker_id: int, code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as refused:
        decide_unregistration(cluster(state(1, "1")), BrokerId(broker_id), INHERITED)
    assert refused.value.code is code
