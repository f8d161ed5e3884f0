from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.ids import BrokerId, PartitionIndex
from penstock.metadata import controller
from penstock.metadata.changes import BrokerGone, ControllerElected, PartitionImage
from penstock.metadata.controller import Controller, decide_candidacy
from penstock.metadata.elections import decide_balance, decide_elections
from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_state import Election
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.metadata.clusters import INHERITED, ONE, ORDERS, TWO, apply, cluster, partition_of, shown, state


def controlled(image: ClusterImage, broker_id: BrokerId = ONE) -> ClusterImage:
    return apply(image, decide_candidacy(image, broker_id))


def test_the_first_to_stand_is_the_controller_until_its_registration_is_over() -> None:
    image = controlled(cluster(state(1, "123")))
    assert (image.controller, image.controller_epoch) == (1, 1)
    assert decide_candidacy(image, TWO) == []
    image.apply(BrokerGone(ONE, 1))
    assert decide_candidacy(image, TWO) == [ControllerElected(TWO, 2)]


def test_a_broker_that_is_gone_or_shuts_down_leaves_it_to_others() -> None:
    image = cluster(state(1, "123"), live="2", shutting_down="1")
    assert decide_candidacy(image, BrokerId(3)) == []
    assert decide_candidacy(image, ONE) == []
    image.apply(BrokerGone(TWO, 2))
    assert decide_candidacy(image, ONE) == [ControllerElected(ONE, 1)]


def test_only_the_controller_decides() -> None:
    with pytest.raises(BrokerError) as refused:
        Controller().decide(controlled(cluster(state(1, "123"))), TWO, INHERITED)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_one_look_cares_for_everything_and_the_next_has_nothing_to_do() -> None:
    image = controlled(cluster(state(2, "123"), live="13"))
    looking = Controller()
    apply(image, looking.decide(image, ONE, INHERITED))
    assert shown(partition_of(image)) == "1/1 isr=13 elr="
    assert looking.decide(image, ONE, INHERITED) == []


def test_what_was_seen_well_is_looked_at_again_when_brokers_change() -> None:
    image = controlled(cluster(state(2, "123")))
    looking = Controller()
    assert looking.decide(image, ONE, INHERITED) == []
    image.apply(BrokerGone(TWO, 2))
    assert len(looking.decide(image, ONE, INHERITED)) == 1


def test_what_was_decided_and_not_committed_is_decided_again() -> None:
    image = controlled(cluster(state(2, "123"), live="13"))
    looking = Controller()
    assert looking.decide(image, ONE, INHERITED) == looking.decide(image, ONE, INHERITED) != []


def test_a_look_is_bounded_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "PARTITIONS_PER_LOOK_MAX", 2)
    image = controlled(cluster(state(2, "123"), live="13"))
    spread(image, 5)
    looking, looks = Controller(), 0
    while changes := looking.decide(image, ONE, INHERITED):
        assert len(changes) <= 2
        apply(image, changes)
        looks += 1
    assert looks == 3
    assert {partition.leader for partition in image.topics[ORDERS].partitions} == {1}


def spread(image: ClusterImage, partition_count: int) -> None:
    topic = image.topics[ORDERS]
    partitions = tuple(replace(topic.partitions[0], index=PartitionIndex(index)) for index in range(partition_count))
    image.topics[ORDERS] = image.topics_by_id[topic.topic_id] = replace(topic, partitions=partitions)


# Elections on request


def outcome(image: ClusterImage, election: Election, name: str = "orders", index: int = 0) -> str:
    [decided] = decide_elections(image, [(name, index)], election, INHERITED).values()
    return decided.code.name if isinstance(decided, BrokerError) else shown(decided.partition)


def test_the_preferred_replica_is_elected_if_it_is_in_sync() -> None:
    assert outcome(cluster(state(2, "123")), Election.PREFERRED) == "1/1 isr=123 elr="
    assert outcome(cluster(state(1, "123")), Election.PREFERRED) == "ELECTION_NOT_NEEDED"
    assert outcome(cluster(state(2, "23")), Election.PREFERRED) == "PREFERRED_LEADER_NOT_AVAILABLE"


def test_an_unclean_election_needs_a_live_replica() -> None:
    assert outcome(cluster(state(-1, "", elr="1"), live="3"), Election.UNCLEAN) == "3/1 isr=3 elr="
    assert outcome(cluster(state(-1, "", elr="1"), live="4"), Election.UNCLEAN) == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    assert outcome(cluster(state(1, "1")), Election.UNCLEAN) == "ELECTION_NOT_NEEDED"


@pytest.mark.parametrize(("name", "index"), [("payments", 0), ("orders", 1)])
def test_an_election_of_an_unknown_partition_is_refused(name: str, index: int) -> None:
    assert outcome(cluster(state(1, "1")), Election.PREFERRED, name, index) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_of_all_partitions_those_that_need_no_election_are_left_out() -> None:
    image = cluster(state(2, "123"))
    assert list(decide_elections(image, None, Election.PREFERRED, INHERITED)) == [("orders", 0)]
    assert decide_elections(image, None, Election.UNCLEAN, INHERITED) == {}


def test_leadership_returns_to_preferred_replicas_that_are_in_sync() -> None:
    image = controlled(cluster(state(2, "123")))
    spread(image, 5)
    assert len(decide_balance(image, ONE, INHERITED, partitions_max=3)) == 3
    apply(image, decide_balance(image, ONE, INHERITED, partitions_max=100))
    assert {partition.leader for partition in image.topics[ORDERS].partitions} == {1}
    assert decide_balance(image, ONE, INHERITED, partitions_max=100) == []


@pytest.mark.parametrize(
    "partition", [state(2, "23"), state(-1, "", elr="1"), state(2, "123", adding="3"), state(2, "123", removing="1")]
)
def test_leadership_stays_where_the_preferred_replica_cannot_lead_or_replicas_move(partition: PartitionImage) -> None:
    image = controlled(cluster(partition, live="23"), TWO)
    assert decide_balance(image, TWO, INHERITED, partitions_max=100) == []


def test_only_the_controller_balances() -> None:
    with pytest.raises(BrokerError) as refused:
        decide_balance(cluster(state(2, "123")), ONE, INHERITED, partitions_max=100)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
