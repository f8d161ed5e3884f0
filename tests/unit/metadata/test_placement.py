from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerGone, BrokerRegistered, BrokerShuttingDown
from penstock.metadata.image import ClusterImage
from penstock.metadata.placement import place_partitions, place_replicas
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.metadata.images import image_with_brokers


def brokers(*racks: str | None) -> dict[BrokerId, str | None]:
    return dict(zip(map(BrokerId, count()), racks, strict=False))


def image_of_three() -> ClusterImage:
    return image_with_brokers(1, 2, 3)


def test_replicas_are_spread_evenly() -> None:
    placed = place_replicas(brokers(None, None, None, None), 12, 3, first=5)
    assert all(len(set(replicas)) == 3 for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {3}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {9}
    # When broker 0 fails, its partitions go to three different brokers.
    assert {replicas[1] for replicas in placed if replicas[0] == 0} == {1, 2, 3}


@pytest.mark.parametrize("replication_factor", [2, 3])
def test_no_rack_has_two_replicas_before_every_rack_has_one(replication_factor: int) -> None:
    racks = brokers("a", "a", "a", "b", "c", "c")
    placed = place_replicas(racks, 60, replication_factor, first=0)
    assert all(len({racks[replica] for replica in replicas}) == replication_factor for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}


def test_racks_take_turns_beyond_their_number() -> None:
    racks = brokers("a", "a", "a", "b", "b", "b")
    for replicas in place_replicas(racks, 30, 4, first=3):
        assert len(set(replicas)) == 4
        assert Counter(racks[replica] for replica in replicas) == {"a": 2, "b": 2}


def test_a_rack_of_one_broker_does_not_limit_the_others() -> None:
    racks = brokers("a", "b", "b", "b")
    for replicas in place_replicas(racks, 12, 4, first=0):
        assert set(replicas) == set(racks)


def test_leaders_of_neighbouring_partitions_are_in_different_racks() -> None:
    racks = brokers("a", "a", "b", "b")
    placed = place_replicas(racks, 4, 1, first=0)
    assert [racks[replicas[0]] for replicas in placed] == ["a", "b", "a", "b"]


def test_a_broker_that_is_down_takes_replicas_only_where_the_others_are_too_few() -> None:
    image = image_of_three()
    image.apply(BrokerGone(BrokerId(2), 2))
    assert all(set(replicas) == {1, 3} for replicas in place_partitions(image, 4, 2, first=0))
    placed = place_partitions(image, 4, 3, first=0)
    assert [replicas[2] for replicas in placed] == [2, 2, 2, 2]
    image.apply(BrokerShuttingDown(BrokerId(3), 3))
    assert all(replicas[0] == 1 for replicas in place_partitions(image, 4, 2, first=0))
    assert {replicas[1] for replicas in place_partitions(image, 4, 2, first=0)} == {2, 3}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(BrokerError) as refused:
        place_partitions(image_of_three(), 1, 4, first=0)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_nothing_is_placed_while_no_broker_can_lead() -> None:
    image = ClusterImage("cluster")
    for change in (BrokerRegistered(image_of_three().brokers[BrokerId(1)]), BrokerGone(BrokerId(1), 1)):
        image.apply(change)
    with pytest.raises(BrokerError) as refused:
        place_partitions(image, 1, 1, first=0)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
