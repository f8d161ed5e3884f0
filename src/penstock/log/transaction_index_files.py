"""The `.txnindex` files of a log, and the checkpoint that verifies them.

Kafka's format has no checksum, and a segment without aborted transactions has no file. So a damaged or missing file
would go unnoticed, and aborted records would be read as committed. Therefore `transaction-index-checkpoint` lists the
segments that have a file, with its size and CRC32C. Files that do not match are rebuilt from the log. Kafka ignores
this checkpoint.

Owns: file names, the format of the checkpoint, which files are valid.
Must never know: batches, and how an index is rebuilt.

Invariant: files and checkpoint are written before the recovery point passes the end of their segment. After the
recovery point they are not used: the log is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from penstock.log.damage import Damage
from penstock.log.filesystem import FileSystem
from penstock.log.log_state import LogState
from penstock.log.segment import TRANSACTION_INDEX_SUFFIX, Segment, offset_name
from penstock.log.transaction_index import SavedIndex

CHECKPOINT_NAME: Final = "transaction-index-checkpoint"

_VERSION: Final = 0


def load(state: LogState, names: list[str], end_offset: int) -> int:
    """Loads the transaction index from the files of segments that begin before `end_offset`.

    Returns the offset up to which it is valid: `end_offset`, or the start of the first segment with an invalid file.
    """
    index = state.transaction_index
    on_disk = {name for name in names if name.endswith(TRANSACTION_INDEX_SUFFIX)}
    if CHECKPOINT_NAME in names:
        content = state.fs.read_file(_checkpoint_path(state))
        saved = decode_checkpoint(content)
        if saved is None:
            state.report(Damage(_checkpoint_path(state), 0, len(content), "it is not a transaction index checkpoint"))
        index.saved = saved or {}
    if not on_disk and not index.saved:
        return end_offset
    for number, segment in enumerate(state.segments):
        base_offset = segment.base_offset
        if base_offset >= end_offset:
            break
        name = offset_name(base_offset) + TRANSACTION_INDEX_SUFFIX
        expected = index.saved.get(base_offset)
        content = state.fs.read_file(f"{state.directory}/{name}") if name in on_disk else b""
        if expected is None and name not in on_disk:
            continue
        found = SavedIndex(len(content), crc32c(content))
        if found != expected or not index.extend(content, base_offset, state.end_offset_of(number)):
            reason = "it does not match its checkpoint and is rebuilt"
            state.report(Damage(f"{state.directory}/{name}", 0, len(content), reason))
            return base_offset
    return end_offset


def files_to_write(state: LogState, first: int, end: int) -> list[tuple[str, bytes]]:
    """Path and content of the index files of the segments numbered [first, end), followed by the checkpoint."""
    index = state.transaction_index
    saved = index.saved
    if first >= end or not (index or saved):
        return []
    files = []
    for number in range(first, end):
        segment = state.segments[number]
        content = index.encode(segment.base_offset, state.end_offset_of(number))
        if content:
            files.append((segment.transaction_index_path, content))
            saved[segment.base_offset] = SavedIndex(len(content), crc32c(content))
        else:
            saved.pop(segment.base_offset, None)
    bases = {segment.base_offset for segment in state.segments}
    for base_offset in saved.keys() - bases:
        del saved[base_offset]
    files.append((_checkpoint_path(state), encode_checkpoint(saved)))
    return files


def remove_index_file(state: LogState, segment: Segment) -> None:
    """For a truncated segment: it grows again and gets its file when it is sealed."""
    if segment.base_offset in state.transaction_index.saved:
        with suppress(FileNotFoundError):
            state.fs.remove_file(segment.transaction_index_path)


def remove_superfluous(state: LogState, names: list[str]) -> None:
    """Removes the files of segments that have no aborted transaction."""
    for number, segment in enumerate(state.segments):
        name = offset_name(segment.base_offset) + TRANSACTION_INDEX_SUFFIX
        if name in names and not state.transaction_index.encode(segment.base_offset, state.end_offset_of(number)):
            state.fs.remove_file(segment.transaction_index_path)


@dataclass(frozen=True, slots=True)
class CheckpointUpdate:
    """The checkpoint after segments were replaced by a cleaned one. `write` may run in any thread."""

    fs: FileSystem
    directory: str
    content: bytes | None
    """None if there is nothing to write."""

    def write(self) -> None:
        """Also returns only when the names in the directory are on disk."""
        if self.content is not None:
            self.fs.write_file(f"{self.directory}/{CHECKPOINT_NAME}", self.content, sync=True)
        else:
            self.fs.sync_directory(self.directory)

    @classmethod
    def after_crash(cls, fs: FileSystem, directory: str, base_offset: int, end_offset: int) -> CheckpointUpdate:
        """For the swap of a segment that a crash interrupted. Its index file was synced before the swap began."""
        try:
            saved = decode_checkpoint(fs.read_file(f"{directory}/{CHECKPOINT_NAME}"))
        except FileNotFoundError:
            saved = {}
        if saved is None:
            return cls(fs, directory, None)  # It is damaged, which is reported when it is loaded.
        before = dict(saved)
        for offset in [offset for offset in saved if base_offset <= offset < end_offset]:
            del saved[offset]
        with suppress(FileNotFoundError):
            content = fs.read_file(f"{directory}/{offset_name(base_offset)}{TRANSACTION_INDEX_SUFFIX}")
            saved[base_offset] = SavedIndex(len(content), crc32c(content))
        return cls(fs, directory, None if saved == before else encode_checkpoint(saved))


def replace_in_checkpoint(state: LogState, ranges: Sequence[tuple[int, int]]) -> CheckpointUpdate | None:
    """The checkpoint after the segments in these ranges of offsets became one each; None if it does not change."""
    index = state.transaction_index
    before = dict(index.saved)
    for base_offset, end_offset in ranges:
        for offset in [offset for offset in index.saved if base_offset <= offset < end_offset]:
            del index.saved[offset]
        content = index.encode(base_offset, end_offset)
        if content:
            index.saved[base_offset] = SavedIndex(len(content), crc32c(content))
    if index.saved == before:
        return None
    return CheckpointUpdate(state.fs, state.directory, encode_checkpoint(index.saved))


def encode_checkpoint(saved: dict[int, SavedIndex]) -> bytes:
    lines = [str(_VERSION), str(len(saved))]
    lines += [f"{base_offset} {size} {crc}" for base_offset, (size, crc) in sorted(saved.items())]
    return ("\n".join(lines) + "\n").encode()


def decode_checkpoint(content: bytes) -> dict[int, SavedIndex] | None:
    """None if this is not a complete checkpoint."""
    try:
        version, count, *lines = content.decode().split("\n")
        rows = [tuple(map(int, line.split(" "))) for line in lines[:-1]]
        saved = {base_offset: SavedIndex(size, crc) for base_offset, size, crc in rows}
        whole = int(version) == _VERSION and int(count) == len(saved) == len(rows) and lines[-1:] == [""]
    except ValueError:
        return None
    return saved if whole else None


def _checkpoint_path(state: LogState) -> str:
    return f"{state.directory}/{CHECKPOINT_NAME}"
