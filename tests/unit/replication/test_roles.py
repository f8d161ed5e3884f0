"""The high watermark is the smallest log end offset of the in-sync replicas, whatever order things happen in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.ids import BrokerId, LeaderEpoch
from penstock.replication.roles import FollowerState, LeaderState

ONE, TWO, THREE, STRANGER = BrokerId(1), BrokerId(2), BrokerId(3), BrokerId(9)


def leader(
    *in_sync: BrokerId, high_watermark: int = 0, replicas: tuple[BrokerId, ...] = (ONE, TWO, THREE)
) -> LeaderState:
    return LeaderState(ONE, LeaderEpoch(5), replicas, in_sync, high_watermark, now_ms=0)


def test_a_leader_alone_decides_at_once() -> None:
    state = leader(ONE, replicas=(ONE,), high_watermark=3)
    assert state.high_watermark == 3
    assert state.appended(7) == state.high_watermark == 7


def test_a_replica_that_is_not_in_sync_holds_nothing_back() -> None:
    assert leader(ONE).appended(7) == 7


def test_the_slowest_in_sync_replica_decides() -> None:
    state = leader(ONE, TWO, THREE)
    assert state.appended(10) == 0
    assert state.follower_fetched(TWO, 10, 1) == 0
    assert state.follower_fetched(THREE, 4, 2) == 4
    assert state.follower_fetched(THREE, 9, 3) == 9
    assert state.follower_fetched(THREE, 10, 4) == 10
    assert state.appended(12) == 10


def test_a_new_leader_keeps_the_high_watermark_until_its_followers_have_fetched() -> None:
    state = leader(ONE, TWO, high_watermark=5)
    assert state.appended(8) == 5
    # A follower that is behind the high watermark: it never goes back.
    assert state.follower_fetched(TWO, 2, 1) == 5
    assert state.follower_fetched(TWO, 8, 2) == 8


def test_a_replica_that_leaves_the_in_sync_replicas_lets_the_others_go_on() -> None:
    state = leader(ONE, TWO, THREE)
    state.appended(10)
    state.follower_fetched(TWO, 9, 1)
    assert state.change_in_sync([ONE, TWO]) == 9
    assert state.change_in_sync([ONE]) == 10


def test_a_replica_that_comes_back_is_waited_for_again() -> None:
    state = leader(ONE)
    assert state.appended(10) == 10
    assert state.change_in_sync([ONE, TWO]) == 10
    assert state.appended(12) == 10
    assert state.follower_fetched(TWO, 12, 1) == 12


def test_a_broker_without_a_replica_decides_nothing() -> None:
    state = leader(ONE, TWO)
    state.appended(10)
    assert state.follower_fetched(STRANGER, 10, 1) == 0
    assert state.lagging_followers(10_000, 100) == (TWO,)


def test_a_follower_lags_when_it_has_not_caught_up_for_too_long() -> None:
    state = leader(ONE, TWO)
    state.appended(10)
    # A new leader gives its followers time.
    assert state.lagging_followers(100, 100) == ()
    assert state.lagging_followers(101, 100) == (TWO,)
    # It fetches all the time, and never gets to the end.
    state.follower_fetched(TWO, 9, 150)
    assert state.lagging_followers(160, 100) == (TWO,)
    state.follower_fetched(TWO, 10, 200)
    # Nothing is appended: it has everything, however long ago it fetched.
    assert state.lagging_followers(10_000, 100) == ()
    state.appended(11)
    assert state.lagging_followers(301, 100) == (TWO,)


events = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.sampled_from([TWO, THREE]), st.integers(0, 30)),
        st.tuples(st.just("isr"), st.sets(st.sampled_from([TWO, THREE]))),
    ),
    max_size=40,
)


@given(events)
def test_no_record_becomes_readable_that_an_in_sync_replica_lacks(history: list[tuple[object, object]]) -> None:
    state = leader(ONE, TWO, THREE)
    ends = {ONE: 0, TWO: 0, THREE: 0}
    in_sync = {ONE, TWO, THREE}
    for what, value in history:
        before = state.high_watermark
        if what == "append":
            ends[ONE] += value  # type: ignore[operator]
            told = state.appended(ends[ONE])
        elif what == "isr":
            # As the controller does: only a replica that holds everything readable joins.
            joining = {follower for follower in value if ends[follower] >= before}  # type: ignore[attr-defined]
            in_sync = {ONE, *joining}
            told = state.change_in_sync(in_sync)
        else:
            ends[what] = max(ends[what], min(value, ends[ONE]))  # type: ignore[index, call-overload]
            told = state.follower_fetched(what, ends[what], 0)  # type: ignore[arg-type, index]
        assert told == state.high_watermark >= before
        assert all(ends[replica] >= told for replica in in_sync)
        known = {replica: end for replica, end in ends.items() if replica in in_sync}
        if all(end > 0 for end in known.values()):
            assert told == max(before, min(known.values()))


def test_a_follower_knows_of_the_readable_records_what_it_holds() -> None:
    state = FollowerState(TWO, LeaderEpoch(5), high_watermark=3)
    assert state.fetched(leader_high_watermark=10, end_offset=7) == 7
    assert state.fetched(leader_high_watermark=10, end_offset=12) == 10
    assert state.fetched(leader_high_watermark=9, end_offset=12) == 10


def test_a_follower_that_was_truncated_knows_less() -> None:
    state = FollowerState(TWO, LeaderEpoch(5), high_watermark=8)
    assert state.truncated(6) == 6
    assert state.truncated(7) == 6


def test_below_the_minimum_of_in_sync_replicas_nothing_is_committed() -> None:
    state = LeaderState(ONE, LeaderEpoch(5), (ONE, TWO, THREE), (ONE, TWO), 0, now_ms=0, min_in_sync=2)
    state.appended(10)
    assert state.follower_fetched(TWO, 5, 1) == 5
    assert state.change_in_sync([ONE]) == 5
    assert not state.has_enough_in_sync
    assert state.appended(12) == 5
    assert state.change_in_sync([ONE, TWO]) == 5
    assert state.follower_fetched(TWO, 12, 2) == 12
    assert state.change_min_in_sync(3) == 12
    assert state.appended(13) == 12
    assert state.change_min_in_sync(1) == 12
    assert state.follower_fetched(TWO, 13, 3) == 13


def test_nothing_is_committed_that_an_eligible_replica_lacks() -> None:
    """The minimum is lowered, and the controller is slower than the next produce."""
    state = LeaderState(ONE, LeaderEpoch(5), (ONE, TWO, THREE), (ONE, TWO), 0, now_ms=0, min_in_sync=2)
    state.change_in_sync((ONE,), 1, eligible=(TWO,))
    assert state.change_min_in_sync(1) == 0
    assert state.has_enough_in_sync
    assert state.appended(20) == 0
    assert state.change_in_sync((ONE,), 2) == 20


def test_a_partition_is_not_asked_for_more_in_sync_replicas_than_it_has() -> None:
    state = LeaderState(ONE, LeaderEpoch(5), (ONE,), (ONE,), 0, now_ms=0, min_in_sync=2)
    assert state.has_enough_in_sync
    assert state.appended(3) == 3


def test_while_a_change_is_proposed_both_sets_count() -> None:
    state = leader(ONE, TWO)
    state.appended(10)
    state.follower_fetched(TWO, 10, 1)
    state.follower_fetched(THREE, 4, 1)
    # THREE may have joined, and TWO may have left: nobody knows yet.
    state.propose_in_sync([ONE, THREE])
    assert state.is_proposing
    state.appended(12)
    assert state.follower_fetched(TWO, 12, 2) == 10
    assert state.follower_fetched(THREE, 12, 3) == 12
    state.appended(14)
    assert state.follower_fetched(THREE, 14, 4) == 12
    # The change is committed, and then the proposal is answered.
    assert state.change_in_sync([ONE, THREE]) == 14
    assert state.proposal_ended() == 14
    assert not state.is_proposing


def test_proposals_of_unknown_outcome_count_together() -> None:
    state = leader(ONE)
    state.appended(10)
    state.propose_in_sync([ONE, TWO])
    state.propose_in_sync([ONE, THREE])
    state.appended(12)
    state.follower_fetched(THREE, 12, 1)
    assert state.high_watermark == 10
    assert state.follower_fetched(TWO, 11, 2) == 11
    assert state.proposal_ended() == 12


def test_progress_belongs_to_the_broker_epoch_in_which_it_was_made() -> None:
    state = leader(ONE, TWO)
    state.appended(10)
    assert state.follower_fetched(TWO, 6, 1, broker_epoch=7) == 6
    # It came back with less. A late fetch of its earlier life says nothing.
    assert state.follower_fetched(TWO, 4, 2, broker_epoch=8) == 6
    assert state.follower_fetched(TWO, 10, 3, broker_epoch=7) == 6
    assert state.follower_fetched(TWO, 9, 4, broker_epoch=8) == 9
    progress = state.progress_of(TWO)
    assert progress is not None
    assert (progress.broker_epoch, progress.end_offset) == (8, 9)


def test_a_follower_joins_with_everything_that_may_be_committed() -> None:
    state = LeaderState(ONE, LeaderEpoch(5), (ONE, TWO, THREE), (ONE,), 3, now_ms=0, start_offset=8, min_in_sync=2)
    state.appended(10)
    assert not state.may_join(TWO)
    # An earlier leader may have committed what is below the start of this epoch.
    state.follower_fetched(TWO, 7, 1)
    assert not state.may_join(TWO)
    state.follower_fetched(TWO, 8, 2)
    assert state.may_join(TWO)
    state.change_in_sync([ONE, TWO])
    assert not state.may_join(TWO)
    assert not state.may_join(STRANGER)


def test_a_new_leader_answers_for_the_end_when_its_high_watermark_has_reached_its_epoch() -> None:
    state = LeaderState(ONE, LeaderEpoch(5), (ONE, TWO), (ONE, TWO), 3, now_ms=0, start_offset=8)
    state.appended(10)
    state.follower_fetched(TWO, 7, 1)
    assert not state.may_answer_end_offset
    state.follower_fetched(TWO, 8, 2)
    assert state.may_answer_end_offset


def test_a_follower_of_a_busy_leader_has_caught_up_with_what_there_was_at_its_last_fetch() -> None:
    state = leader(ONE, TWO)
    for round_number in range(1, 10):
        state.appended(10 * round_number)
        state.follower_fetched(TWO, 10 * (round_number - 1), 50 * round_number)
    assert state.lagging_followers(500, 100) == ()
    state.appended(200)
    assert state.lagging_followers(700, 100) == (TWO,)


def test_a_reassignment_brings_and_takes_replicas() -> None:
    state = leader(ONE, replicas=(ONE, TWO))
    state.appended(5)
    state.change_replicas((ONE, THREE), now_ms=10)
    assert state.progress_of(TWO) is None
    state.follower_fetched(THREE, 5, 20)
    assert state.may_join(THREE)
