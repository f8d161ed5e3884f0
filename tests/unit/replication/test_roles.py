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
