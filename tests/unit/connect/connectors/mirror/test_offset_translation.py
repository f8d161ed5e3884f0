"""Translated offsets against a model: two logs, of which all records are known."""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass, field

import pytest

from penstock.connect.connectors.mirror.offset_translation import OffsetSyncs
from penstock.connect.connectors.mirror.records import OffsetSync
from penstock.core.ids import TopicPartition

PARTITION = TopicPartition("orders", 0)


def syncs(*pairs: tuple[int, int], most: int = 100) -> OffsetSyncs:
    found = OffsetSyncs(most)
    for upstream, downstream in pairs:
        found.add(OffsetSync(PARTITION, upstream, downstream))
    return found


def test_a_group_at_a_sync_is_translated_exactly_and_one_behind_it_to_the_next_record() -> None:
    known = syncs((10, 3), (20, 8))
    assert [known.translate(PARTITION, offset) for offset in (9, 10, 11, 19, 20, 500)] == [None, 3, 4, 4, 8, 9]


def test_a_partition_without_syncs_is_not_translated() -> None:
    assert syncs((1, 1)).translate(TopicPartition("orders", 1), 5) is None


def test_records_that_are_copied_again_replace_what_was_known_of_them() -> None:
    known = syncs((0, 0), (10, 10), (20, 20), (10, 31))
    assert [known.translate(PARTITION, offset) for offset in (5, 10, 25)] == [1, 31, 32]


def test_a_target_that_was_created_again_replaces_all() -> None:
    known = syncs((0, 0), (10, 10), (20, 0))
    assert [known.translate(PARTITION, offset) for offset in (15, 20, 21)] == [None, 0, 1]


def test_old_syncs_are_thinned_out_and_stay_true() -> None:
    known = syncs(*((offset, offset) for offset in range(1000)), most=64)
    found = [known.translate(PARTITION, offset) for offset in range(1000)]
    assert found[0] == 0
    assert found[990:] == list(range(990, 1000))
    assert all(each is not None and each <= offset for offset, each in enumerate(found))


@dataclass
class Logs:
    """Upstream offsets of records, with gaps, and where each was copied to, with markers between them."""

    random: random.Random
    upstream: list[int] = field(default_factory=list)
    downstream: list[int] = field(default_factory=list)
    next_upstream: int = 0
    next_downstream: int = 0

    def copy(self, count: int) -> range:
        """Copies new records, and returns their places."""
        first = len(self.upstream)
        for _ in range(count):
            self.next_upstream += self.random.choice((0, 0, 0, 1, 7))
            self.upstream.append(self.next_upstream)
            self.downstream.append(self.next_downstream)
            self.next_upstream += 1
            self.next_downstream += 1
        self.next_downstream += 1  # the marker of the transaction
        return range(first, first + count)


@pytest.mark.parametrize("seed", range(20))
def test_no_group_misses_a_record_and_rereads_at_most_what_lies_between_two_syncs(seed: int) -> None:
    choice = random.Random(seed)
    logs, known = Logs(choice), OffsetSyncs()
    lag_max = choice.randint(1, 20)
    for _ in range(30):
        copied = logs.copy(choice.randint(1, 60))
        for place in sorted({*copied[::lag_max], copied[-1]}):
            known.add(OffsetSync(PARTITION, logs.upstream[place], logs.downstream[place]))
    for position in range(0, logs.next_upstream + 1, 7):
        translated = known.translate(PARTITION, position)
        if translated is None:
            assert position < logs.upstream[0]
            continue
        first_unread = bisect_left(logs.upstream, position)
        first_read_on = bisect_left(logs.downstream, translated)
        assert 0 <= first_unread - first_read_on < lag_max, (seed, position, translated)
