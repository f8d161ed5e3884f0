"""Puts cleaned segments in the place of those that they replace, so that a crash at any moment leaves either all of the
old segments or all of the new ones. Kafka's suffixes and rules.

1. `.cleaned`: a cleaner writes the new files, and syncs them. If it is interrupted, the next start removes them.
2. `.swap`: once all are complete, they are renamed; the log file of the first segment is the last one. From then on the
   new segments count. A start that finds a `.cleaned` file removes all `.swap` files from its offset on: not all of the
   new files had been renamed.
3. `.deleted`: the replaced files are renamed. They are removed later (`file.delete.delay.ms`), or by the next start.
4. The new files get their names; each log file is the last one of its segment. A start that finds the `.swap` file of a
   log repeats steps 3 and 4 for it.

Between the steps the names of the directory are synced: after a power failure no later step is on disk without the
earlier ones.

Owns: the names, their order, and what a start makes of them.
Must never know: records, or why segments were cleaned.

Invariants: when a swap begins, the directory has no `.cleaned` files but its own; others would make a start discard it.
The last batch of a cleaned segment ends where the replaced segments end, so that a `.swap` file itself tells
which offsets it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from penstock.log.batches import BatchAnomaly, headers
from penstock.log.cleaning.cleaner import CLEANED_SUFFIX, Replacement
from penstock.log.filesystem import FileSystem
from penstock.log.index import OffsetIndex, TimeIndex
from penstock.log.log_state import LogState
from penstock.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    offset_name,
)
from penstock.log.transaction_index_files import CheckpointUpdate, replace_in_checkpoint

SWAP_SUFFIX: Final = ".swap"

_DERIVED_SUFFIXES: Final = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != LOG_SUFFIX)
_LOG_LAST: Final = (*_DERIVED_SUFFIXES, LOG_SUFFIX)

Sync = Callable[[], None]


def swap_segments(state: LogState, replacements: Sequence[Replacement], due_ms: int) -> Iterator[Sync]:
    """Carries out steps 2 to 4. Replaced files may be removed at `due_ms`.

    Each yielded call waits for the disk and may run in another thread; everything else runs in the thread of the log.
    The log may be read and appended to in between, and its old segments may be deleted.
    """
    fs, directory = state.fs, state.directory

    def sync_names() -> None:
        fs.sync_directory(directory)

    for replacement in reversed(replacements):
        for suffix in _LOG_LAST:
            _rename_if_exists(fs, _path(directory, replacement.base_offset, suffix), CLEANED_SUFFIX, SWAP_SUFFIX)
    yield sync_names
    installed = [_install(state, replacement, due_ms) for replacement in replacements]
    yield sync_names
    for replacement in replacements:
        _name_derived_files(fs, directory, replacement.base_offset)
    update = replace_in_checkpoint(state, [(each.base_offset, each.end_offset) for each in replacements])
    yield sync_names if update is None else update.write
    for replacement in replacements:
        _rename_if_exists(fs, _path(directory, replacement.base_offset, LOG_SUFFIX), SWAP_SUFFIX, "")
    for segment in installed:
        segment.release()
    yield sync_names


def complete_swaps(fs: FileSystem, directory: str, names: list[str]) -> list[str]:
    """What a start does with the files of an interrupted cleaning or deletion. Returns the names that remain."""
    left = [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX))]
    if not left:
        return names
    for name in left:
        if name.endswith(DELETED_SUFFIX):
            fs.remove_file(f"{directory}/{name}")
    cleaned = [name for name in left if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in left if name.endswith(SWAP_SUFFIX)]
    if cleaned:
        incomplete_from = min(_offset(name) for name in cleaned)
        for name in [name for name in swaps if _offset(name) >= incomplete_from]:
            fs.remove_file(f"{directory}/{name}")
            swaps.remove(name)
        fs.sync_directory(directory)  # otherwise a crash could leave `.swap` files that seem complete
        for name in cleaned:
            fs.remove_file(f"{directory}/{name}")
    for base_offset in sorted(_offset(name) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        _complete_swap(fs, directory, base_offset)
    names = fs.list_directory(directory)
    for name in names:
        if name.endswith(SWAP_SUFFIX):  # derived files whose log file has its name already; they are rebuilt
            fs.remove_file(f"{directory}/{name}")
    fs.sync_directory(directory)
    return [name for name in names if not name.endswith(SWAP_SUFFIX)]


def _complete_swap(fs: FileSystem, directory: str, base_offset: int) -> None:
    log_path = _path(directory, base_offset, LOG_SUFFIX)
    file = fs.open(log_path + SWAP_SUFFIX)
    end_offset = base_offset + 1
    with suppress(BatchAnomaly):  # Damage is found when the segment is read.
        for _, header in headers(file, 0, file.size(), contiguous=False):
            end_offset = header.end_offset
    for name in fs.list_directory(directory):
        if name.endswith(SEGMENT_SUFFIXES) and base_offset < _offset(name) < end_offset:
            fs.remove_file(f"{directory}/{name}")
    fs.sync_directory(directory)
    _name_derived_files(fs, directory, base_offset)
    CheckpointUpdate.after_crash(fs, directory, base_offset, end_offset).write()
    _rename_if_exists(fs, log_path, SWAP_SUFFIX, "")


def _install(state: LogState, replacement: Replacement, due_ms: int) -> Segment:
    """Renames the replaced files, and puts the new segment into the state. It reads from the open `.swap` file."""
    fs, path = state.fs, _path(state.directory, replacement.base_offset, "")
    segment = Segment(fs, state.caches, state.directory, replacement.base_offset, replacement.size)
    offset_index = OffsetIndex.decode(fs.read_file(path + INDEX_SUFFIX + SWAP_SUFFIX), replacement.size)
    time_index = TimeIndex.decode(fs.read_file(path + TIME_INDEX_SUFFIX + SWAP_SUFFIX))
    segment.adopt_cleaned(
        fs.open(path + LOG_SUFFIX + SWAP_SUFFIX), offset_index or OffsetIndex(), time_index or TimeIndex()
    )
    segment.unverified_end_offset = replacement.end_offset
    segment.max_timestamp = replacement.max_timestamp
    segment.max_timestamp_offset = replacement.max_timestamp_offset
    segment.max_timestamp_known = True
    state.replace_segments(segment, len(replacement.replaced), due_ms)
    state.transaction_index.replace(replacement.base_offset, replacement.end_offset, replacement.aborted)
    return segment


def _name_derived_files(fs: FileSystem, directory: str, base_offset: int) -> None:
    """Renames those that do not have their names yet. An empty transaction index needs no file."""
    for suffix in _DERIVED_SUFFIXES:
        path = _path(directory, base_offset, suffix)
        with suppress(FileNotFoundError):
            if suffix == TRANSACTION_INDEX_SUFFIX and fs.size(path + SWAP_SUFFIX) == 0:
                with suppress(FileNotFoundError):
                    fs.remove_file(path)
                fs.remove_file(path + SWAP_SUFFIX)
            else:
                fs.rename(path + SWAP_SUFFIX, path)


def _path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{offset_name(base_offset)}{suffix}"


def _offset(name: str) -> int:
    """The base offset of a segment's file; above all others for a file that has none."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else 1 << 63


def _rename_if_exists(fs: FileSystem, path: str, suffix: str, new_suffix: str) -> None:
    with suppress(FileNotFoundError):
        fs.rename(path + suffix, path + new_suffix)
