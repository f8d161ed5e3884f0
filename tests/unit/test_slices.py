"""The rotating slices of CI: together they are the whole suite, and none of them overlap."""

from __future__ import annotations

import pytest

from tests.conftest import Slice

NAMES = [f"tests/unit/test_{number:03}.py::test_something[{number}]" for number in range(200)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_slices_cover_every_test_once_and_are_equal(count: int) -> None:
    slices = [Slice(number, count).of(NAMES) for number in range(count)]
    assert sorted(name for each in slices for name in each) == NAMES
    sizes = [len(each) for each in slices]
    assert max(sizes) - min(sizes) <= 1


def test_a_slice_does_not_depend_on_the_order_of_collection_nor_on_the_process() -> None:
    assert Slice(1, 3).of(NAMES) == Slice(1, 3).of(NAMES[::-1])
    # Python's own hash of a string is another one in every process.
    assert Slice(0, 3).of(["a", "b", "c"]) == {"c"}


@pytest.mark.parametrize("number", range(3))
def test_tests_stay_in_their_slice_when_others_come(number: int) -> None:
    """Of all that are in the slice afterwards, only a few were in another one."""
    before = Slice(number, 3).of(NAMES)
    after = Slice(number, 3).of([*NAMES, *(f"tests/unit/test_new.py::test_{new}" for new in range(20))])
    moved = (after & set(NAMES)) ^ before
    assert len(moved) <= 6


@pytest.mark.parametrize("text", ["", "1", "2/2", "-1/2", "a/b", "1/0"])
def test_a_slice_that_selects_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected K/N"):
        Slice.parse(text)
