"""Which leader epoch wrote which offsets (KIP-101, KIP-320), and the checkpoint file that remembers it.

Owns: the entries (epoch, start offset), their file's text, and the judgement when file and batches disagree.
Must never know: replicas, elections; it is told an epoch with every append.

Invariant: epochs and start offsets are both strictly increasing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from penstock.core.ids import NO_LEADER_EPOCH

CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED_OFFSET: Final = -1

_VERSION: Final = 0


@dataclass(slots=True)
class EpochRun:
    """Batches in a row that carry one epoch, and for which the checkpoint names one epoch (perhaps another)."""

    epoch: int
    checkpoint_epoch: int
    first_offset: int
    end_offset: int
    start: int
    end: int
    batches: int = 1


class LeaderEpochs:
    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else NO_LEADER_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """From `start_offset` on, batches are of `epoch`. What was known of this offset and behind it is replaced."""
        self.truncate(start_offset)
        while self._epochs and self._epochs[-1] >= epoch:
            if self._epochs[-1] == epoch:
                return
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def epoch_at(self, offset: int) -> int:
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_LEADER_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch that is not above `epoch`, and the offset at which the next one begins.

        An epoch before all known ones ended where the first of them begins. (NO_LEADER_EPOCH, UNDEFINED_OFFSET) for an
        epoch that is newer than all of them, and for a log without epochs.
        """
        if not self._epochs or epoch > self._epochs[-1] or epoch == NO_LEADER_EPOCH:
            return NO_LEADER_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        at = bisect_right(self._epochs, epoch)
        if at == 0:
            return epoch, self._starts[0]
        return self._epochs[at - 1], self._starts[at]

    def truncate(self, end_offset: int) -> bool:
        """Forgets what began at or after `end_offset`; says whether there was anything."""
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end_offset:
            keep -= 1
        changed = keep < len(self._starts)
        del self._epochs[keep:]
        del self._starts[keep:]
        return changed

    def truncate_start(self, start_offset: int) -> bool:
        """Forgets the epochs that ended before `start_offset`; the one that holds it now begins there."""
        at = bisect_right(self._starts, start_offset) - 1
        if at < 0 or (at == 0 and self._starts[0] == start_offset):
            return False
        del self._epochs[:at]
        del self._starts[:at]
        self._starts[0] = start_offset
        return True

    def encode(self) -> bytes:
        lines = [str(_VERSION), str(len(self._epochs))]
        lines += [f"{epoch} {start_offset}" for epoch, start_offset in self.entries]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> LeaderEpochs | None:
        """None if the text is not exactly what `encode` would have written for these entries."""
        try:
            lines = content.decode("ascii").split("\n")
            pairs = [(int(epoch), int(start_offset)) for epoch, start_offset in map(str.split, lines[2:-1])]
        except ValueError:
            return None
        decoded = cls()
        decoded._epochs = [epoch for epoch, _ in pairs]
        decoded._starts = [start_offset for _, start_offset in pairs]
        ordered = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
        in_range = all(epoch >= 0 and start_offset >= 0 for epoch, start_offset in pairs)
        return decoded if ordered and in_range and decoded.encode() == content else None


def settle(
    checkpoint: LeaderEpochs | None, runs: list[EpochRun], log_end_offset: int, *, trust_single_batches: bool
) -> LeaderEpochs:
    """The epochs that the log's batches and its checkpoint agree on best.

    The epoch of a batch lies outside its CRC and the checkpoint has no checksum, so either may be wrong. One batch that
    contradicts the checkpoint is a damaged batch; two in a row that agree with each other are a damaged checkpoint.
    Without a checkpoint, a single batch that breaks the order of its neighbours is a damaged one. If there had been a
    checkpoint and it was damaged, other things may be as well: then a single batch is not believed at all.
    """
    settled = LeaderEpochs()
    runs = _joined(runs)
    for number, run in enumerate(runs):
        epoch = run.epoch
        if run.batches == 1:
            following = runs[number + 1].epoch if number + 1 < len(runs) else epoch
            if checkpoint is not None:
                epoch = run.checkpoint_epoch
            elif following < epoch or not (trust_single_batches or len(runs) == 1):
                continue
        if epoch > settled.latest:
            settled.assign(epoch, run.first_offset)
    if checkpoint is not None and checkpoint.latest > settled.latest and checkpoint.entries[-1][1] == log_end_offset:
        settled.assign(checkpoint.latest, log_end_offset)  # a leader was elected and wrote nothing yet
    return settled


def _joined(runs: list[EpochRun]) -> list[EpochRun]:
    """The runs of the whole log: one that a segment's end or damage only interrupted counts as one."""
    joined: list[EpochRun] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last is not None and (last.epoch, last.checkpoint_epoch) == (run.epoch, run.checkpoint_epoch):
            joined[-1] = replace(last, end_offset=run.end_offset, batches=last.batches + run.batches)
        else:
            joined.append(run)
    return joined
