from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core import limits
from penstock.core.ids import TopicPartition
from penstock.log.checkpoints import (
    decode_offsets,
    decode_partition_metadata,
    encode_offsets,
    encode_partition_metadata,
)
from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.filesystem import FileSystem, RealFileSystem
from penstock.log.log_directory import LogDirectory, LogDirectoryInUse
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.cleaning.compacted_logs import compact, compacting, contents, put, seal
from tests.unit.log.stored_batches import NOW_MS, append, make_batch, read_all

TOPIC_ID = bytes(range(16))


def open_directory(fs: FileSystem, path: str = "data", damage: list[Damage] | None = None) -> LogDirectory:
    return LogDirectory.open(
        path,
        fs,
        config_for=lambda topic, partition: LogConfig(),
        now_ms=NOW_MS,
        report_damage=(damage if damage is not None else []).append,
    )


def test_logs_are_found_again_with_their_offsets() -> None:
    fs = MemoryFileSystem()
    directory = open_directory(fs)
    assert not directory.was_clean
    log = directory.create("orders.eu-1", 12, TOPIC_ID, LogConfig(), NOW_MS)
    written = [append(log, make_batch())[1] for _ in range(5)]
    log.delete_records_before(2)
    directory.create("empty", 0, TOPIC_ID, LogConfig(), NOW_MS)
    directory.close({TopicPartition("orders.eu-1", 12): 4})
    assert fs.read_file("data/recovery-point-offset-checkpoint") == b"0\n2\nempty 0 0\norders.eu-1 12 5\n"
    assert fs.read_file("data/log-start-offset-checkpoint") == b"0\n1\norders.eu-1 12 2\n"
    assert fs.read_file("data/replication-offset-checkpoint") == b"0\n1\norders.eu-1 12 4\n"
    assert ".kafka_cleanshutdown" in fs.list_directory("data")
    again = open_directory(fs)
    assert again.was_clean
    assert ".kafka_cleanshutdown" not in fs.list_directory("data")
    assert set(again.logs) == {("orders.eu-1", 12), ("empty", 0)}
    assert again.high_watermarks == {("orders.eu-1", 12): 4}
    found = again.logs[TopicPartition("orders.eu-1", 12)]
    assert (found.log_start_offset, found.log_end_offset, found.recovery_point) == (2, 5, 5)
    assert read_all(found) == written[2:]
    assert again.topic_id("orders.eu-1", 12) == TOPIC_ID


def test_a_killed_broker_is_recovered_from_its_checkpoints() -> None:
    fs = MemoryFileSystem()
    directory = open_directory(fs)
    log = directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    written = [append(log, make_batch())[1] for _ in range(3)]
    log.flush()
    directory.write_checkpoints({})
    written += [append(log, make_batch())[1] for _ in range(3)]
    again = open_directory(fs.copy())
    assert not again.was_clean
    assert again.logs[TopicPartition("t", 0)].recovery_point == 3
    assert read_all(again.logs[TopicPartition("t", 0)]) == written


@pytest.mark.parametrize("real", [True, False])
def test_a_second_broker_is_kept_out(tmp_path: Path, real: bool) -> None:
    fs: FileSystem = RealFileSystem() if real else MemoryFileSystem()
    path = str(tmp_path / "data") if real else "data"
    directory = open_directory(fs, path)
    with pytest.raises(LogDirectoryInUse, match="in use by another broker"):
        open_directory(fs, path)
    directory.close({})
    open_directory(fs, path)


def test_a_deleted_partition_is_gone_at_once_and_from_the_disk_by_the_next_start() -> None:
    fs = MemoryFileSystem()
    directory = open_directory(fs)
    append(directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS), make_batch())
    path = directory.delete("t", 0, "abc")
    assert path == "data/t-0.abc-delete"
    assert directory.logs == {}
    assert directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS).log_end_offset == 0
    assert "t-0.abc-delete" in fs.list_directory("data")
    directory.close({})
    again = open_directory(fs)
    assert "t-0.abc-delete" not in fs.list_directory("data")
    assert set(again.logs) == {("t", 0)}


def test_a_partition_that_was_set_aside_is_kept_and_not_opened_again() -> None:
    fs = MemoryFileSystem()
    directory = open_directory(fs)
    append(directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS), make_batch())
    assert directory.set_aside("t", 0, "abc", NOW_MS) == "data/t-0.abc-stray"
    directory.close({})
    assert open_directory(fs).logs == {}
    assert f"{0:020d}.log" in fs.list_directory("data/t-0.abc-stray")


def test_a_partition_that_was_set_aside_is_removed_after_a_week() -> None:
    fs = MemoryFileSystem()
    directory = open_directory(fs)
    directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    path = directory.set_aside("t", 0, "abc", NOW_MS - limits.STRAY_DIRECTORY_KEPT_MS)
    directory.close({})
    again = open_directory(fs)
    assert again.removed_strays == []
    again.close({})
    fs.put(f"{path}/set-aside", b"not a time")
    open_directory(fs).close({})
    assert fs.read_file(f"{path}/set-aside") == f"{NOW_MS}\n".encode(), "counts from now on"
    fs.put(f"{path}/set-aside", f"{NOW_MS - limits.STRAY_DIRECTORY_KEPT_MS - 1}\n".encode())
    last = open_directory(fs)
    assert last.removed_strays == [path]
    assert "t-0.abc-stray" not in fs.list_directory("data")


class TestCompactedLogs:
    """`cleaner-offset-checkpoint` tells how far each log is compacted, and so which logs have gaps."""

    def with_a_gap(self) -> MemoryFileSystem:
        fs = MemoryFileSystem()
        directory = open_directory(fs)
        config = compacting()
        log = directory.create("compacted", 0, TOPIC_ID, config, NOW_MS)
        directory.create("other", 0, TOPIC_ID, LogConfig(), NOW_MS)
        for value in "123":
            put(log, ("a", value))
        log.lifecycle.cleaned_offset = 0
        seal(log)
        assert compact(log, fs)
        directory.close({})
        return fs

    def test_the_offset_is_found_again_in_kafkas_format(self) -> None:
        fs = self.with_a_gap()
        assert fs.read_file("data/cleaner-offset-checkpoint") == b"0\n1\ncompacted 0 3\n"
        damage: list[Damage] = []
        again = open_directory(fs, damage=damage)  # where the topic is no longer compacted
        log = again.logs[TopicPartition("compacted", 0)]
        assert log.lifecycle.cleaned_offset == 3
        assert contents(log) == [(2, "a", "3")]
        assert damage == []

    def test_a_damaged_checkpoint_makes_no_damage_of_gaps(self) -> None:
        fs = self.with_a_gap()
        fs.put("data/cleaner-offset-checkpoint", b"0\n7\n")
        damage: list[Damage] = []
        again = open_directory(fs, damage=damage)
        assert contents(again.logs[TopicPartition("compacted", 0)]) == [(2, "a", "3")]
        assert [each.file for each in damage] == ["data/cleaner-offset-checkpoint"]

    def test_a_new_topic_of_the_same_name_begins_anew(self) -> None:
        fs = self.with_a_gap()
        directory = open_directory(fs)
        directory.delete("compacted", 0, "abc")
        directory.create("compacted", 0, TOPIC_ID, compacting(), NOW_MS)
        assert fs.read_file("data/cleaner-offset-checkpoint") == b"0\n0\n"


def test_what_was_deleted_can_be_removed_right_away() -> None:
    fs = MemoryFileSystem()
    directory = open_directory(fs)
    directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    directory.remove_deleted(directory.delete("t", 0, "abc"))
    assert not [name for name in fs.list_directory("data") if name.startswith("t-")]


def test_a_new_log_outlives_the_removal_of_one_whose_files_were_gone() -> None:
    """The removal runs in another thread, and the topic may have been created again by then."""
    fs = MemoryFileSystem()
    directory = open_directory(fs)
    directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    fs.remove_directory("data/t-0")
    abandoned = directory.delete("t", 0, "abc")
    log = directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    append(log, make_batch())
    directory.remove_deleted(abandoned)
    assert log.is_in_place()
    assert "t-0" in fs.list_directory("data")


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_damaged_checkpoint_is_reported_and_does_without(name: str) -> None:
    fs = MemoryFileSystem()
    directory = open_directory(fs)
    log = directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    written = [append(log, make_batch())[1] for _ in range(3)]
    directory.close({})
    fs.put(f"data/{name}", b"0\n1\nt 0 x\n")
    damage: list[Damage] = []
    again = open_directory(fs, damage=damage)
    assert read_all(again.logs[TopicPartition("t", 0)]) == written
    assert [d.file for d in damage] == [f"data/{name}"]


def test_other_files_and_directories_are_left_alone() -> None:
    fs = MemoryFileSystem()
    fs.put("data/meta.properties", b"version=1\n")
    fs.make_directory("data/notapartition")
    fs.make_directory("data/t-01")
    directory = open_directory(fs)
    assert directory.logs == {}
    directory.close({})
    assert {"meta.properties", "notapartition", "t-01"} <= set(fs.list_directory("data"))


def test_partition_metadata_names_the_topic_id_in_kafkas_text() -> None:
    content = encode_partition_metadata(TOPIC_ID)
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert decode_partition_metadata(content) == TOPIC_ID
    for wrong in (b"", content[:-1], content + b"\n", content.replace(b"0", b"1", 1), b"version: 0\ntopic_id: x\n"):
        assert decode_partition_metadata(wrong) is None


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"1\n0\n", b"0\n1\n", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"0\n1\nt 0 -1\n", b"0\n1\nt 0 1"]
)
def test_an_offset_checkpoint_that_is_not_whole_is_refused(content: bytes) -> None:
    assert decode_offsets(content) is None
    assert decode_offsets(encode_offsets({TopicPartition("t", 0): 1})) == {("t", 0): 1}


def test_the_files_of_a_partition_bear_kafkas_names(tmp_path: Path) -> None:
    directory = open_directory(RealFileSystem(), str(tmp_path))
    log = directory.create("t", 0, TOPIC_ID, LogConfig(segment_bytes=100), NOW_MS)
    for _ in range(3):
        append(log, make_batch(b"x" * 60))
    directory.close({})
    names = {path.name for path in (tmp_path / "t-0").iterdir()}
    expected = {f"{base:020d}.{suffix}" for base in range(3) for suffix in ("log", "index", "timeindex")}
    expected |= {f"{base:020d}.snapshot" for base in range(1, 4)}
    assert names == expected | {"leader-epoch-checkpoint", "partition.metadata"}
