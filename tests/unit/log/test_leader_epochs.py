from __future__ import annotations

import pytest

from penstock.log.leader_epochs import EpochRun, LeaderEpochs, resolve


def test_the_checkpoint_is_kafkas_text() -> None:
    epochs = LeaderEpochs([(0, 0), (3, 120)])
    assert epochs.encode() == b"0\n2\n0 0\n3 120\n"
    again = LeaderEpochs.decode(epochs.encode())
    assert again is not None
    assert again.entries == [(0, 0), (3, 120)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0 0",
        b"0\n1\n0 0\n\n",
        b"0\n1\n0  0\n",
        b"0\n1\n00 0\n",
        b"0\n1\n0 -1\n",
        b"0\n2\n3 0\n2 5\n",
        b"0\n2\n2 5\n3 5\n",
        b"0\n1\n\xff 0\n",
        b"0\n1\n0 0 0\n",
    ],
)
def test_any_other_text_is_refused(content: bytes) -> None:
    assert LeaderEpochs.decode(content) is None


def test_which_epoch_led_at_an_offset() -> None:
    epochs = LeaderEpochs([(1, 10), (4, 20)])
    assert [epochs.epoch_at(offset) for offset in (0, 9, 10, 19, 20, 500)] == [-1, -1, 1, 1, 4, 4]
    assert epochs.latest == 4


def test_where_an_epoch_ended() -> None:
    """KIP-101 and KIP-320: the largest epoch that is not above the asked one, and where the next begins."""
    epochs = LeaderEpochs([(1, 10), (4, 20)])
    assert epochs.end_offset_for(4, 30) == (4, 30)
    assert epochs.end_offset_for(1, 30) == (1, 20)
    assert epochs.end_offset_for(3, 30) == (1, 20)
    assert epochs.end_offset_for(0, 30) == (0, 10)
    assert epochs.end_offset_for(5, 30) == (-1, -1)
    assert epochs.end_offset_for(-1, 30) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, 30) == (-1, -1)


def test_assigning_replaces_what_it_contradicts() -> None:
    epochs = LeaderEpochs([(1, 10), (4, 20)])
    epochs.assign(4, 25)
    assert epochs.entries == [(1, 10), (4, 20)]
    epochs.assign(6, 20)
    assert epochs.entries == [(1, 10), (6, 20)]
    epochs.assign(2, 40)
    assert epochs.entries == [(1, 10), (2, 40)]


def test_truncating_at_both_ends() -> None:
    epochs = LeaderEpochs([(1, 10), (4, 20), (5, 30)])
    assert epochs.truncate(30)
    assert not epochs.truncate(30)
    assert epochs.truncate_start(25)
    assert epochs.entries == [(4, 25)]
    assert not epochs.truncate_start(25)
    assert not epochs.truncate_start(5)


def run(epoch: int, checkpoint_epoch: int, first: int, batches: int) -> EpochRun:
    return EpochRun(epoch, checkpoint_epoch, first, first + batches, first, first + batches, batches)


class TestSettling:
    def test_one_batch_against_the_checkpoint_is_damaged(self) -> None:
        checkpoint = LeaderEpochs([(2, 0)])
        runs = [run(2, 2, 0, 5), run(66, 2, 5, 1), run(2, 2, 6, 5)]
        assert resolve(checkpoint, runs, 11, trust_single_batches=True).entries == [(2, 0)]

    def test_two_batches_against_the_checkpoint_are_right(self) -> None:
        checkpoint = LeaderEpochs([(6, 0)])
        assert resolve(checkpoint, [run(2, 6, 0, 5)], 5, trust_single_batches=True).entries == [(2, 0)]

    def test_one_batch_that_was_not_flushed_is_newer_than_the_checkpoint(self) -> None:
        checkpoint = LeaderEpochs([(2, 0)])
        runs = [run(2, 2, 0, 5), run(3, 2, 5, 1)]

        def entries(*, unflushed_from: int, newest_epoch: int) -> list[tuple[int, int]]:
            resolved = resolve(
                checkpoint,
                runs,
                6,
                trust_single_batches=True,
                unflushed_from=unflushed_from,
                newest_epoch=newest_epoch,
            )
            return resolved.entries

        assert entries(unflushed_from=5, newest_epoch=3) == [(2, 0), (3, 5)]
        assert entries(unflushed_from=6, newest_epoch=3) == [(2, 0)]
        assert entries(unflushed_from=5, newest_epoch=2) == [(2, 0)]

    def test_one_batch_that_was_not_flushed_is_damaged_if_the_next_has_an_older_epoch(self) -> None:
        checkpoint = LeaderEpochs([(2, 0)])
        runs = [run(2, 2, 0, 5), run(66, 2, 5, 1), run(2, 2, 6, 5)]
        assert resolve(checkpoint, runs, 11, trust_single_batches=True, unflushed_from=0, newest_epoch=66).entries == [
            (2, 0)
        ]

    def test_without_a_checkpoint_the_order_decides(self) -> None:
        runs = [run(0, -1, 0, 5), run(64, -1, 5, 1), run(0, -1, 6, 5), run(1, -1, 11, 1)]
        assert resolve(None, runs, 12, trust_single_batches=True).entries == [(0, 0), (1, 11)]
        assert resolve(None, runs, 12, trust_single_batches=False).entries == [(0, 0)]

    def test_an_epoch_that_wrote_nothing_yet_is_kept(self) -> None:
        checkpoint = LeaderEpochs([(0, 0), (1, 5)])
        assert resolve(checkpoint, [run(0, 0, 0, 5)], 5, trust_single_batches=True).entries == [(0, 0), (1, 5)]
