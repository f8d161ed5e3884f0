from __future__ import annotations

import pytest

from penstock.bench.ownership import is_settled, range_deal

PARTITIONS = 5


@pytest.mark.parametrize("owned", [[{0, 1, 2}, {3, 4}], [{4}, {0}, {1}, {2}, {3}], [{0, 1, 2, 3, 4}]])
def test_everything_owned_once_and_evenly_is_settled(owned: list[set[int]]) -> None:
    assert is_settled(owned, PARTITIONS)


@pytest.mark.parametrize(
    "owned",
    [
        [],
        [set(), set()],
        [{0, 1}, {2, 3}],
        [{0, 1, 2}, {2, 3}],
        [{0, 1, 2}, {2, 3, 4}],
        [{0, 1, 2, 3}, {4}],
        [{0, 1, 2}, {3, 4}, set()],
    ],
    ids=["nobody", "nothing", "an orphan", "an orphan and two owners", "two owners", "uneven", "an idle newcomer"],
)
def test_anything_else_is_not(owned: list[set[int]]) -> None:
    assert not is_settled(owned, PARTITIONS)


def test_the_leader_deals_neighbours_in_the_order_of_names() -> None:
    assert range_deal(["c", "a", "b"], PARTITIONS) == {"a": [0, 1], "b": [2, 3], "c": [4]}


@pytest.mark.parametrize(("member_count", "partition_count"), [(1, 7), (50, 500), (51, 500), (7, 3)])
def test_a_deal_ends_in_a_settled_group(member_count: int, partition_count: int) -> None:
    dealt = range_deal([f"member-{number}" for number in range(member_count)], partition_count)
    assert is_settled([set(partitions) for partitions in dealt.values()], partition_count)
