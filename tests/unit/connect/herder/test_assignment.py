from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.connect.herder.assignment import assign
from penstock.connect.herder.ownership import partition_of_connector
from penstock.wire.group_member import Claim

NOTHING = Claim(frozenset(), -1)


def owned(assigned: dict[str, frozenset[int]], generation: int) -> dict[str, Claim]:
    return {member: Claim(partitions, generation) for member, partitions in assigned.items()}


def test_a_worker_alone_owns_everything() -> None:
    assert assign({"a": NOTHING}, 5) == {"a": frozenset(range(5))}


def test_a_partition_that_moves_is_withheld_for_one_round() -> None:
    claims = {"a": Claim(frozenset(range(4)), 1), "b": NOTHING}
    first = assign(claims, 4)
    assert first == {"a": {0, 1}, "b": frozenset()}
    assert assign(owned(first, 2), 4) == {"a": {0, 1}, "b": {2, 3}}


def test_partitions_of_a_lost_worker_move_at_once_and_no_other_does() -> None:
    claims = {"a": Claim(frozenset({0, 1}), 3), "b": Claim(frozenset({2}), 3)}
    assert assign(claims, 5) == {"a": {0, 1, 4}, "b": {2, 3}}


def test_of_two_claims_the_later_generation_counts() -> None:
    claims = {"a": Claim(frozenset({0, 1}), 7), "b": Claim(frozenset({0, 1}), 5)}
    assert assign(claims, 2) == {"a": {0}, "b": frozenset()}


@given(st.integers(1, 6), st.integers(1, 30), st.data())
def test_rounds_end_balanced_and_nothing_is_owned_twice(members: int, partitions: int, data: st.DataObject) -> None:
    owner = st.sampled_from([None, *range(members)])
    owners = data.draw(st.lists(owner, min_size=partitions, max_size=partitions))
    claims = {
        f"m{member}": Claim(frozenset(each for each in range(partitions) if owners[each] == member), 1)
        for member in range(members)
    }
    for generation in (2, 3):
        assigned = assign(claims, partitions)
        for member, gets in assigned.items():
            for other, claim in claims.items():
                assert other == member or not gets & claim.partitions, "it is still another worker's"
        claims = owned(assigned, generation)
    sizes = [len(claim.partitions) for claim in claims.values()]
    assert sum(sizes) == partitions
    assert max(sizes) - min(sizes) <= 1
    assert assign(claims, partitions) == {member: claim.partitions for member, claim in claims.items()}, "stable"


def test_a_connector_belongs_to_the_partition_of_its_name() -> None:
    assert partition_of_connector("src", 25) == partition_of_connector("src", 25) < 25
    assert len({partition_of_connector(f"connector-{number}", 25) for number in range(500)}) == 25
