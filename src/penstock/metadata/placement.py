"""Where the replicas of new partitions go: brokers in turn, racks in turn, live brokers first.

Must not know: topics by name, requests, how full a disk is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from penstock.core.ids import BrokerId
from penstock.metadata.image import ClusterImage
from penstock.protocol.error_codes import BrokerError, ErrorCode


def place_partitions(
    image: ClusterImage, partition_count: int, replication_factor: int, *, first: int
) -> list[tuple[BrokerId, ...]]:
    """The replicas of each partition, the preferred leader first.

    Brokers that are registered and not live, or are shutting down, take replicas only where the others are too few, as
    in Kafka: a topic can be created while a broker restarts.
    """
    known, active = image.known_brokers, sorted(image.active_brokers)
    if replication_factor > len(known):
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor {replication_factor} is larger than the number of brokers, {len(known)}.",
        )
    if not active:
        raise BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR, "No registered broker can lead: all are stopping.")
    racks = {broker_id: known[broker_id].rack for broker_id in active}
    placed = place_replicas(racks, partition_count, min(replication_factor, len(active)), first=first)
    absent = sorted(known.keys() - racks.keys())
    missing = replication_factor - len(active)
    if missing <= 0:
        return placed
    return [
        (*replicas, *(absent[(partition + position) % len(absent)] for position in range(missing)))
        for partition, replicas in enumerate(placed, start=first)
    ]


def place_replicas(
    racks: Mapping[BrokerId, str | None], partition_count: int, replication_factor: int, *, first: int
) -> list[tuple[BrokerId, ...]]:
    """Replicas in turn over the brokers: leaders take turns, and each turn shifts the followers by one more.

    The shift spreads a failed broker's leaderships over all the others rather than on its neighbour. No rack has a
    second replica of a partition before every rack has one. There are at least as many brokers as replicas.
    """
    brokers = _racks_in_turn(racks)
    count = len(brokers)
    rack_count = len(set(racks.values()))
    placed: list[tuple[BrokerId, ...]] = []
    for partition in range(first, first + partition_count):
        leader, shift = partition % count, partition // count
        # Racks choose among all other brokers; without racks the first ones are taken.
        candidates = count - 1 if rack_count > 1 else replication_factor - 1
        replicas = [brokers[leader]]
        replicas += (brokers[(leader + 1 + (shift + position) % (count - 1)) % count] for position in range(candidates))
        placed.append(tuple(_by_rack(replicas, racks)[:replication_factor] if rack_count > 1 else replicas))
    return placed


def _racks_in_turn(racks: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """The first broker of each rack, then the second of each, and so on. Brokers without a rack share one."""
    positions: dict[str | None, int] = defaultdict(int)
    order: dict[BrokerId, tuple[int, bool, str]] = {}
    for broker_id in sorted(racks):
        rack = racks[broker_id]
        order[broker_id] = (positions[rack], rack is not None, rack or "")
        positions[rack] += 1
    return sorted(racks, key=order.__getitem__)


def _by_rack(candidates: Sequence[BrokerId], racks: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """The candidates in rounds: each round takes the first one left of every rack."""
    rounds: dict[str | None, int] = defaultdict(int)
    ranked: list[tuple[int, BrokerId]] = []
    for candidate in candidates:
        rack = racks[candidate]
        ranked.append((rounds[rack], candidate))
        rounds[rack] += 1
    return [candidate for _, candidate in sorted(ranked, key=lambda rank: rank[0])]
