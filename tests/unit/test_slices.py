"""The rotating slices of CI: together they are the whole suite, and none of them overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from tests.conftest import Slice


@dataclass
class NamedItem:
    nodeid: str


def items(count: int) -> list[pytest.Item]:
    return cast(list[pytest.Item], [NamedItem(f"test_{number:02}") for number in range(count)])


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_slices_cover_every_test_once(count: int) -> None:
    everything = items(20)
    slices = [Slice(number, count).selects(everything) for number in range(count)]
    assert sorted(name for selected in slices for name in selected) == [item.nodeid for item in everything]


def test_a_slice_does_not_depend_on_the_order_of_collection() -> None:
    assert Slice(1, 3).selects(items(10)) == Slice(1, 3).selects(items(10)[::-1])


@pytest.mark.parametrize("text", ["", "1", "2/2", "-1/2", "a/b", "1/0"])
def test_a_slice_that_selects_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected K/N"):
        Slice.parse(text)
