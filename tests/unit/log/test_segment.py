from __future__ import annotations

from random import Random

from penstock.log.segment import VerifiedExtents


def test_extents_that_touch_become_one() -> None:
    extents = VerifiedExtents()
    extents.add(0, 10, 1)
    extents.add(20, 30, 3)
    assert extents.covering(5) == (10, 1)
    assert extents.covering(10) is None
    assert extents.covering(20) == (30, 3)
    extents.add(10, 20, 2)
    assert extents.covering(0) == extents.covering(29) == (30, 3)


def test_extents_against_a_set_of_positions() -> None:
    random = Random(3)
    for _ in range(200):
        extents = VerifiedExtents()
        positions: set[int] = set()
        for _ in range(random.randrange(12)):
            start = random.randrange(60)
            end = start + random.randrange(1, 20)
            extents.add(start, end, end)
            positions |= set(range(start, end))
        for position in range(90):
            covered = extents.covering(position)
            assert (covered is not None) == (position in positions)
            if covered is not None:
                assert covered[0] not in positions
                assert covered[1] == covered[0]
                assert set(range(position, covered[0])) <= positions
