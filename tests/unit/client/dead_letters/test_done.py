"""Which letters are done, as an offset and its metadata, against a set of offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.dead_letters.done import METADATA_CHARACTERS_MAX, Done, TooScattered, done_of


@given(st.lists(st.lists(st.integers(0, 60), max_size=8), max_size=6), st.integers(0, 30))
def test_it_is_a_set_of_offsets_however_it_grew_and_after_every_commit(chosen: list[list[int]], first: int) -> None:
    done, expected = Done().with_range(0, first), set(range(first))
    for offsets in chosen:
        done = done.with_offsets(offsets)
        expected |= set(offsets)
        assert {offset for offset in range(70) if offset in done} == expected
        done = done_of(done.next_offset, done.metadata())  # as the next run finds it
    assert {offset for offset in range(70) if offset in done} == expected
    assert done.next_offset not in expected


def test_offsets_without_letters_do_not_hold_it_back() -> None:
    done = Done().with_offsets([0, 2, 5])
    assert done == Done(1, ((2, 3), (5, 6)))
    assert done.with_range(1, 2).with_range(3, 5) == Done(6)
    assert done.with_range(4, 4) == done


def test_what_something_else_has_committed_counts_as_an_offset() -> None:
    assert done_of(-1001, "") == Done()
    assert done_of(7, "a note of a person") == Done(7)
    assert done_of(7, '{"done": "nonsense"}') == Done(7)
    assert done_of(3, '{"done":[[3,5],[9,10]]}') == Done(5, ((9, 10),))


def test_more_ranges_than_an_offset_holds_are_refused() -> None:
    scattered = Done().with_offsets(range(1, 2_000, 2))
    with pytest.raises(TooScattered, match="1000 separate ranges"):
        scattered.metadata()
    assert len(Done().with_offsets(range(1, 600, 2)).metadata()) <= METADATA_CHARACTERS_MAX
