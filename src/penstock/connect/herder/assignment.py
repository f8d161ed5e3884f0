"""Which worker owns which partitions, decided by one member of the group for all: balanced, sticky, cooperative.

Owns the rule. It must not know requests or connectors.

Invariant: a partition that a member still claims is given to no other member. Those that are to move are left out of
the assignment; their owner stops what runs there and rejoins without them, and the next round gives them away.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.wire.group_member import Claim


def assign(claims: Mapping[str, Claim], partition_count: int) -> dict[str, frozenset[int]]:
    """For every member. Equal input gives equal output."""
    owned = _undisputed(claims, partition_count)
    share, larger_shares = divmod(partition_count, len(claims))
    # Members that own most get the larger shares, so that as little as possible moves.
    order = sorted(owned, key=lambda member: (-len(owned[member]), member))
    quotas = {member: share + (index < larger_shares) for index, member in enumerate(order)}
    assigned = {member: sorted(owned[member])[: quotas[member]] for member in order}
    free = iter(
        sorted(set(range(partition_count)) - frozenset().union(*(claim.partitions for claim in claims.values())))
    )
    for member in sorted(assigned, key=lambda member: (len(assigned[member]), member)):
        while len(assigned[member]) < quotas[member]:
            partition = next(free, None)
            if partition is None:
                break
            assigned[member].append(partition)
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def _undisputed(claims: Mapping[str, Claim], partition_count: int) -> dict[str, set[int]]:
    """Of two members that claim a partition, the one of the later generation has it: the other one was expelled."""
    newest: dict[int, tuple[int, str]] = {}
    for member, claim in claims.items():
        for partition in claim.partitions:
            if partition < partition_count:
                newest[partition] = max(newest.get(partition, (claim.generation, member)), (claim.generation, member))
    owned: dict[str, set[int]] = {member: set() for member in claims}
    for partition, (_generation, member) in newest.items():
        owned[member].add(partition)
    return owned
