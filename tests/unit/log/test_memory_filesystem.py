"""The in-memory file system has exactly the faults that a test requests."""

from __future__ import annotations

import errno

import pytest

from penstock.log.filesystem import write_fully
from tests.memory_filesystem import MemoryFileSystem


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directory("d")
    return fs


def test_a_full_disk_takes_what_fits_and_then_refuses(fs: MemoryFileSystem) -> None:
    file = fs.open("d/a", create=True)
    fs.space_left = 5
    assert file.pwritev([b"abc"], 0) == 3
    assert file.pwritev([b"def"], 3) == 2
    with pytest.raises(OSError) as refused:
        file.pwritev([b"f"], 5)
    assert refused.value.errno == errno.ENOSPC
    assert file.pwritev([b"ABCDE"], 0) == 5  # overwriting needs no room


def test_write_fully_reports_a_disk_that_fills_up_on_the_way(fs: MemoryFileSystem) -> None:
    file = fs.open("d/a", create=True)
    fs.space_left = 4
    with pytest.raises(OSError) as refused:
        write_fully(file, [b"abc", b"def"], 6, 0)
    assert refused.value.errno == errno.ENOSPC


def test_a_torn_write_leaves_a_prefix_once(fs: MemoryFileSystem) -> None:
    file = fs.open("d/a", create=True)
    fs.torn_write = 2
    with pytest.raises(OSError):
        file.pwritev([b"abcdef"], 0)
    assert file.pread(10, 0) == b"ab"
    assert file.pwritev([b"abcdef"], 0) == 6


def test_a_crash_drops_what_was_not_synced(fs: MemoryFileSystem) -> None:
    file = fs.open("d/a", create=True)
    file.pwritev([b"safe"], 0)
    file.sync()
    fs.sync_directory("d")
    file.pwritev([b" and not"], 4)
    fs.write_file("d/c", b"synced", sync=True)
    fs.write_file("d/b", b"unsynced name", sync=False)
    fs.remove_file("d/c")
    assert fs.crash().read_file("d/a") == b"safe"
    assert fs.crash(lambda path, unsynced: 3).read_file("d/a") == b"safe an"
    assert fs.crash().list_directory("d") == ["a", "c"]  # neither the new name nor the removal was synced
    assert fs.copy().read_file("d/a") == b"safe and not"


def test_a_failing_sync_makes_nothing_durable(fs: MemoryFileSystem) -> None:
    file = fs.open("d/a", create=True)
    fs.sync_directory("d")
    file.pwritev([b"abc"], 0)
    fs.sync_error = errno.EIO
    with pytest.raises(OSError):
        file.sync()
    assert fs.crash().read_file("d/a") == b""
