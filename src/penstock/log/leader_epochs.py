"""The leader epochs of a log and their start offsets (KIP-101, KIP-320), and their checkpoint file.

Owns: the entries (epoch, start offset), the file format, and the resolution of conflicts between file and batches.
Must never know: replicas, elections; every append passes its epoch.

Invariant: epochs and start offsets are both strictly increasing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from penstock.core.ids import NO_LEADER_EPOCH
from penstock.log.batches import MAX_OFFSET

CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED_OFFSET: Final = -1

_VERSION: Final = 0


@dataclass(slots=True)
class EpochRun:
    """Consecutive batches of one epoch for which the checkpoint has one epoch, possibly a different one."""

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
        """Batches from `start_offset` on have this epoch. Entries at and after this offset are replaced."""
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
        """Removes entries at and after `end_offset`; returns whether there were any."""
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end_offset:
            keep -= 1
        changed = keep < len(self._starts)
        del self._epochs[keep:]
        del self._starts[keep:]
        return changed

    def truncate_start(self, start_offset: int) -> bool:
        """Removes epochs that ended before `start_offset`; the epoch of this offset now begins there."""
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
        """None unless the content is exactly what `encode` writes for its entries."""
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


def resolve(
    checkpoint: LeaderEpochs | None,
    runs: list[EpochRun],
    log_end_offset: int,
    *,
    trust_single_batches: bool,
    unflushed_from: int = MAX_OFFSET,
    newest_epoch: int = NO_LEADER_EPOCH,
) -> LeaderEpochs:
    """The most plausible epochs, given the log's batches and its checkpoint.

    The epoch of a batch is outside its CRC and the checkpoint has no checksum, so either may be wrong. A single batch
    that contradicts the checkpoint is damaged; two consecutive batches with the same epoch mean that the checkpoint is
    damaged. Without a checkpoint, a single batch out of order is damaged. If the checkpoint itself was damaged, other
    data may be too: then single batches are ignored.

    A crash may lose the newest checkpoint and keep the batches that were written after it. From `unflushed_from` on,
    the offset behind what was flushed before a crash, a batch of a newer epoch is therefore believed, up to the newest
    epoch that the partition has had.
    """
    resolved = LeaderEpochs()
    runs = _joined(runs)
    for number, run in enumerate(runs):
        epoch = run.epoch
        following = runs[number + 1].epoch if number + 1 < len(runs) else epoch
        is_newer = resolved.latest < epoch <= min(following, newest_epoch)
        is_unflushed = is_newer and run.first_offset >= unflushed_from
        if run.batches == 1 and not is_unflushed:
            if checkpoint is not None:
                epoch = run.checkpoint_epoch
            elif following < epoch or not (trust_single_batches or len(runs) == 1):
                continue
        if epoch > resolved.latest:
            resolved.assign(epoch, run.first_offset)
    if checkpoint is not None and checkpoint.latest > resolved.latest and checkpoint.entries[-1][1] == log_end_offset:
        resolved.assign(checkpoint.latest, log_end_offset)  # a leader was elected and has not written yet
    return resolved


def _joined(runs: list[EpochRun]) -> list[EpochRun]:
    """The runs of the whole log: merges runs that were interrupted only by the end of a segment or by damage."""
    joined: list[EpochRun] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last is not None and (last.epoch, last.checkpoint_epoch) == (run.epoch, run.checkpoint_epoch):
            joined[-1] = replace(last, end_offset=run.end_offset, batches=last.batches + run.batches)
        else:
            joined.append(run)
    return joined
