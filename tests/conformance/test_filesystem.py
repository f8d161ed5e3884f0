"""One suite over both file systems: what holds for the real one holds for the one in memory, which tests rely on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.log.filesystem import IOV_MAX, FileSystem, RealFileSystem, write_fully
from tests.memory_filesystem import MemoryFileSystem


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system and an empty directory in it."""
    if request.param == "real":
        return RealFileSystem(), str(tmp_path)
    fs = MemoryFileSystem()
    fs.make_directory("data")
    return fs, "data"


Place = tuple[FileSystem, str]


def test_a_file_gives_back_what_was_written_where_it_was_written(place: Place) -> None:
    fs, root = place
    file = fs.open(f"{root}/a", create=True)
    assert file.pwritev([b"abc", bytearray(b"def"), memoryview(b"ghi")], 0) == 9
    assert file.pwritev([b"XY"], 4) == 2
    assert file.pread(100, 0) == b"abcdXYghi"
    assert file.pread(3, 4) == b"XYg"
    assert file.pread(3, 9) == b""
    assert file.size() == fs.size(f"{root}/a") == 9


def test_writing_behind_the_end_fills_the_gap_with_zeros(place: Place) -> None:
    fs, root = place
    file = fs.open(f"{root}/a", create=True)
    file.pwritev([b"z"], 3)
    assert file.pread(10, 0) == b"\0\0\0z"


def test_two_openings_of_a_name_are_one_file(place: Place) -> None:
    fs, root = place
    fs.open(f"{root}/a", create=True).pwritev([b"one"], 0)
    assert fs.open(f"{root}/a").pread(10, 0) == b"one"
    assert fs.open(f"{root}/a", create=True).size() == 3
    assert fs.read_file(f"{root}/a") == b"one"


def test_truncate_cuts_and_extends(place: Place) -> None:
    fs, root = place
    file = fs.open(f"{root}/a", create=True)
    file.pwritev([b"abcdef"], 0)
    file.truncate(2)
    assert file.pread(10, 0) == b"ab"
    file.truncate(4)
    assert file.pread(10, 0) == b"ab\0\0"


def test_what_is_not_there_is_said_to_be_missing(place: Place) -> None:
    fs, root = place
    for attempt in (
        lambda: fs.open(f"{root}/none"),
        lambda: fs.size(f"{root}/none"),
        lambda: fs.read_file(f"{root}/none"),
        lambda: fs.remove_file(f"{root}/none"),
        lambda: fs.remove_directory(f"{root}/none"),
        lambda: fs.list_directory(f"{root}/none"),
        lambda: fs.rename(f"{root}/none", f"{root}/other"),
        lambda: fs.open(f"{root}/none/a", create=True),
        lambda: fs.write_file(f"{root}/none/a", b"", sync=True),
        lambda: fs.sync_directory(f"{root}/none"),
    ):
        with pytest.raises(FileNotFoundError):
            attempt()


@pytest.mark.parametrize("sync", [True, False])
def test_a_small_file_is_replaced_as_a_whole(place: Place, sync: bool) -> None:
    fs, root = place
    fs.write_file(f"{root}/a", b"a longer content", sync=sync)
    fs.write_file(f"{root}/a", b"short", sync=sync)
    assert fs.read_file(f"{root}/a") == b"short"
    assert fs.list_directory(root) == ["a"]


def test_directories_are_made_with_their_parents_listed_and_removed_with_their_content(place: Place) -> None:
    fs, root = place
    fs.make_directory(f"{root}/x/y")
    fs.make_directory(f"{root}/x/y")
    fs.write_file(f"{root}/x/y/a", b"a", sync=False)
    fs.write_file(f"{root}/x/b", b"b", sync=False)
    assert sorted(fs.list_directory(f"{root}/x")) == ["b", "y"]
    assert fs.list_directory(root) == ["x"]
    fs.remove_directory(f"{root}/x")
    assert fs.list_directory(root) == []


def test_a_directory_is_renamed_with_what_is_in_it(place: Place) -> None:
    fs, root = place
    fs.make_directory(f"{root}/old/inner")
    fs.write_file(f"{root}/old/inner/a", b"a", sync=False)
    fs.rename(f"{root}/old", f"{root}/new")
    assert fs.list_directory(root) == ["new"]
    assert fs.read_file(f"{root}/new/inner/a") == b"a"


def test_an_open_file_outlives_its_name(place: Place) -> None:
    fs, root = place
    file = fs.open(f"{root}/a", create=True)
    file.pwritev([b"still here"], 0)
    fs.remove_file(f"{root}/a")
    assert fs.list_directory(root) == []
    assert file.pread(100, 0) == b"still here"


def test_a_lock_is_held_once_and_given_back_with_its_last_reference(place: Place) -> None:
    fs, root = place
    held = fs.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        fs.lock(f"{root}/.lock")
    del held
    fs.lock(f"{root}/.lock")


def test_syncing_a_file_and_a_directory_is_possible(place: Place) -> None:
    fs, root = place
    file = fs.open(f"{root}/a", create=True)
    file.pwritev([b"a"], 0)
    file.sync()
    fs.sync_directory(root)
    assert file.pread(1, 0) == b"a"


def test_an_open_file_is_told_from_another_one_of_its_name(place: Place) -> None:
    fs, root = place
    assert not fs.is_in_place(f"{root}/a", None)
    file = fs.open(f"{root}/a", create=True)
    assert fs.is_in_place(f"{root}/a", file)
    assert fs.is_in_place(f"{root}/a", None)
    fs.rename(f"{root}/a", f"{root}/b")
    assert not fs.is_in_place(f"{root}/a", file)
    assert fs.path_now(file) == f"{root}/b"
    other = fs.open(f"{root}/a", create=True)
    assert fs.is_in_place(f"{root}/a", other)
    assert not fs.is_in_place(f"{root}/a", file)
    fs.remove_file(f"{root}/b")
    assert fs.path_now(file) is None
    assert not fs.is_in_place(f"{root}/a/0.log", None), "a file in place of a directory"


def test_more_buffers_than_one_call_takes_are_written_in_several(place: Place) -> None:
    fs, root = place
    file = fs.open(f"{root}/a", create=True)
    buffers = [memoryview(f"{number:05d}".encode()) for number in range(2 * IOV_MAX + 7)]
    write_fully(file, buffers, 5 * len(buffers), 3)
    assert file.pread(1 << 20, 3) == b"".join(buffers)


def test_the_descriptor_of_a_real_file_closes_with_its_last_reference(tmp_path: Path) -> None:
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    fd = file.fd
    os.fstat(fd)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_the_time_of_the_last_write(place: Place) -> None:
    fs, root = place
    with pytest.raises(FileNotFoundError):
        fs.modified_ms(f"{root}/a")
    fs.write_file(f"{root}/a", b"x", sync=False)
    if isinstance(fs, MemoryFileSystem):
        fs.clock_ms = 1_234_567
    else:
        os.utime(f"{root}/a", ns=(0, 1_234_567_890_000))
    assert fs.modified_ms(f"{root}/a") == 1_234_567


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        RealFileSystem().write_file(f"{tmp_path}/a", b"x", sync=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
