"""The rotating slices of CI: together they are the whole suite, and none of them overlap."""

from __future__ import annotations

import zlib

import pytest

from tests.conftest import Slice

NAMES = [f"tests/unit/test_{number:03}.py::test_something[{number}]" for number in range(200)]


def selected(number: int, count: int, names: list[str]) -> list[str]:
    return [name for name in names if Slice(number, count).selects(name)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_slices_cover_every_test_once(count: int) -> None:
    slices = [selected(number, count, NAMES) for number in range(count)]
    assert sorted(name for each in slices for name in each) == NAMES
    assert min(map(len, slices)) > len(NAMES) / count / 2


def test_a_test_stays_in_its_slice_when_others_come_and_go() -> None:
    names = selected(1, 3, NAMES)
    assert 0 < len(names) < len(NAMES)
    assert selected(1, 3, NAMES[::-2]) == [name for name in NAMES[::-2] if name in names]


def test_a_slice_is_the_same_in_every_process() -> None:
    """Unlike one by Python's own hash."""
    assert Slice(zlib.crc32(b"test_a") % 5, 5).selects("test_a")


@pytest.mark.parametrize("text", ["", "1", "2/2", "-1/2", "a/b", "1/0"])
def test_a_slice_that_selects_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected K/N"):
        Slice.parse(text)
