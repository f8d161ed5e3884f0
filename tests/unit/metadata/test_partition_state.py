from __future__ import annotations

import pytest

from penstock.core.ids import BrokerId
from penstock.metadata.changes import PartitionImage
from penstock.metadata.partition_state import (
    Election,
    LiveBrokers,
    ReplicationRules,
    effective_minimum,
    may_commit,
    next_state,
)
from tests.unit.metadata.clusters import ids, shown, state


def live(active: str, shutting_down: str = "") -> LiveBrokers:
    return LiveBrokers(frozenset(ids(active + shutting_down)), frozenset(ids(active)))


def rules(min_isr: int = 1, *, unclean: bool = False) -> ReplicationRules:
    return ReplicationRules(min_isr, unclean)


def following(
    before: PartitionImage,
    brokers: LiveBrokers,
    min_isr: int = 1,
    *,
    unclean: bool = False,
    unclean_ends: str = "",
    election: Election = Election.AS_NEEDED,
) -> PartitionImage:
    """The next state, which must be a last one: computed again, nothing follows from it."""
    after = next_state(
        before, brokers, rules(min_isr, unclean=unclean), unclean_ends=ids(unclean_ends), election=election
    )
    assert after is not None
    assert after.partition_epoch == before.partition_epoch + 1
    assert next_state(after, brokers, rules(min_isr, unclean=unclean), election=election) is None
    return after


def test_nothing_follows_from_a_partition_that_is_well() -> None:
    assert next_state(state(1, "123"), live("123"), rules(3)) is None


@pytest.mark.parametrize(
    ("active", "expected"), [("23", "2/1 isr=23 elr="), ("13", "1/0 isr=13 elr="), ("3", "3/1 isr=3 elr=12")]
)
def test_a_broker_that_is_gone_leaves_the_in_sync_replicas(active: str, expected: str) -> None:
    assert shown(following(state(1, "123"), live(active), 2)) == expected


def test_the_replicas_in_order_decide_who_leads_and_not_the_in_sync_replicas() -> None:
    assert following(state(1, "1432", replicas="1234"), live("234")).leader == 2


def test_the_last_in_sync_replica_stays_eligible() -> None:
    after = following(state(1, "1"), live("23"))
    assert shown(after) == "-1/1 isr= elr=1"
    assert after.last_known_leader == 1
    assert shown(following(after, live("123"))) == "1/2 isr=1 elr="


def test_who_leaves_below_the_minimum_stays_eligible_until_enough_are_in_sync() -> None:
    below = following(state(1, "12"), live("1"), 2)
    assert shown(below) == "1/0 isr=1 elr=2"
    assert shown(following(below, live("2"), 2)) == "2/1 isr=2 elr=1"


def test_eligible_replicas_are_forgotten_when_enough_are_in_sync() -> None:
    assert shown(following(state(1, "12", elr="3"), live("12"), 2)) == "1/0 isr=12 elr="


def test_a_minimum_above_the_number_of_replicas_means_all_of_them() -> None:
    assert effective_minimum(state(1, "1"), rules(5)) == 3
    assert next_state(state(1, "123"), live("123"), rules(5)) is None


def test_an_eligible_replica_leads_alone_where_none_is_in_sync() -> None:
    before = state(-1, "", elr="23", leader_epoch=4, last=1)
    assert shown(following(before, live("13"), 2)) == "3/5 isr=3 elr=2"


def test_without_a_complete_replica_a_partition_waits() -> None:
    before = state(-1, "", elr="2", leader_epoch=4, last=1)
    assert next_state(before, live("13"), rules(2)) is None


def test_the_last_leader_leads_again_where_no_replica_is_known_to_be_complete() -> None:
    before = state(-1, "", leader_epoch=4, last=1)
    assert next_state(before, live("23"), rules(2)) is None
    assert shown(following(before, live("123"), 2)) == "1/5 isr=1 elr="


def test_an_unclean_election_takes_any_live_replica_if_the_topic_allows_it() -> None:
    before = state(-1, "", elr="1", leader_epoch=4, last=1)
    assert next_state(before, live("23"), rules()) is None
    assert shown(following(before, live("23"), unclean=True)) == "2/5 isr=2 elr="
    assert shown(following(before, live("23"), 2, election=Election.UNCLEAN)) == "2/5 isr=2 elr="


def test_an_unclean_election_prefers_a_broker_that_stays() -> None:
    before = state(-1, "", elr="1", leader_epoch=4, last=1)
    assert following(before, live("3", shutting_down="2"), unclean=True).leader == 3
    assert following(before, live("", shutting_down="2"), unclean=True).leader == 2


def test_an_unclean_end_makes_a_replica_neither_in_sync_nor_eligible() -> None:
    assert shown(following(state(1, "123"), live("123"), 3, unclean_ends="2")) == "1/0 isr=13 elr="
    assert shown(following(state(1, "1", elr="23"), live("123"), 3, unclean_ends="2")) == "1/0 isr=1 elr=3"


def test_a_leader_that_ended_uncleanly_begins_a_new_epoch_even_where_it_leads_again() -> None:
    assert shown(following(state(1, "1"), live("123"), unclean_ends="1")) == "1/1 isr=1 elr="
    assert shown(following(state(1, "13"), live("123"), unclean_ends="1")) == "3/1 isr=3 elr="


def test_a_broker_that_shuts_down_leaves_where_another_replica_is_in_sync() -> None:
    assert shown(following(state(1, "123"), live("23", shutting_down="1"), 3)) == "2/1 isr=23 elr=1"
    assert shown(following(state(2, "123"), live("23", shutting_down="1"))) == "2/0 isr=23 elr="
    assert next_state(state(1, "1"), live("23", shutting_down="1"), rules()) is None


def test_a_broker_that_shuts_down_leads_only_where_no_other_complete_replica_is_live() -> None:
    before = state(1, "12", elr="3")
    assert shown(following(before, live("3", shutting_down="2"), 3)) == "3/1 isr=3 elr=12"
    assert shown(following(before, live("", shutting_down="2"), 3)) == "2/1 isr=2 elr=13"
    assert shown(following(before, live("", shutting_down="3"), 3)) == "3/1 isr=3 elr=12"


def test_the_preferred_replica_leads_if_it_is_in_sync_and_stays() -> None:
    before = state(2, "123")
    assert shown(following(before, live("123"), election=Election.PREFERRED)) == "1/1 isr=123 elr="
    assert next_state(state(2, "23"), live("123"), rules(), election=Election.PREFERRED) is None


def test_a_leader_commits_with_enough_in_sync_and_nothing_eligible_beside_them() -> None:
    assert may_commit(state(1, "12"), rules(2))
    assert not may_commit(state(1, "1"), rules(2))
    # The minimum was lowered, and the controller has not taken the eligible replica back yet.
    assert not may_commit(state(1, "1", elr="2"), rules(1))


def test_a_partition_that_was_created_on_a_broker_that_is_already_dead_comes_back() -> None:
    """The broker's lease ends after the creation, and its next run reports an unclean end."""
    created = state(2, "2", replicas="23")
    dead = following(created, live("3"))
    assert shown(dead) == "-1/1 isr= elr=2"
    assert shown(following(dead, live("23"), unclean_ends="2")) == "2/2 isr=2 elr="


def test_a_broker_that_is_not_a_replica_any_more_is_not_the_last_leader() -> None:
    assert next_state(state(-1, "", replicas="23", last=BrokerId(1)), live("1"), rules()) is None
