from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.core.ids import BrokerId, ProducerId, uuid_bytes
from penstock.core.properties import parse_properties
from penstock.metadata.changes import (
    BrokerConfigChanged,
    DurableChange,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicConfigChanged,
    TopicDeleted,
)
from penstock.metadata.data_directory import META_PROPERTIES, StoreError
from penstock.metadata.image import ClusterImage
from penstock.metadata.journal_lines import JournalDamage, decode_lines, encode_line
from penstock.metadata.store_local import COMPACTION_BYTES_MIN, JOURNAL, LocalJournal
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.clocks import SeededEntropy
from tests.unit.metadata.images import created, partition, topic_id

COMMITS: list[list[DurableChange]] = [
    [created("orders", 1, 2, {"retention.ms": "5"}), created("caf\u00e9", 2)],
    [PartitionsAdded(topic_id(1), (partition(2),))],
    [TopicConfigChanged(topic_id(1), {"segment.ms": "9"})],
    [BrokerConfigChanged(None, {"message.max.bytes": "9"}), BrokerConfigChanged(BrokerId(1), {"max.connections": "2"})],
    [TopicDeleted(topic_id(2))],
]


def open_store(directory: Path, **arguments: object) -> LocalJournal:
    return LocalJournal.open(directory, node_id=1, new_uuid=SeededEntropy().uuid, **arguments)  # type: ignore[arg-type]


def commit(journal: LocalJournal, changes: list[DurableChange]) -> None:
    """As `LocalMetadataStore` does, without its thread."""
    journal.append(changes)
    for change in changes:
        journal.image.apply(change)
    if journal.has_grown:
        journal.compact(journal.image.live_changes())


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[LocalJournal]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


def test_only_the_owner_can_read_the_journal(tmp_path: Path) -> None:
    """It holds the keys of SCRAM users."""
    path = tmp_path / JOURNAL
    open_store(tmp_path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)  # as an earlier version made it
    journal = open_store(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    journal.append([BrokerConfigChanged(None, {"message.max.bytes": "9" * 2 * COMPACTION_BYTES_MIN})])
    journal.compact([])
    journal.close()
    assert path.stat().st_size < COMPACTION_BYTES_MIN, "the file was replaced"
    assert path.stat().st_mode & 0o777 == 0o600


def state(image: ClusterImage) -> tuple[object, ...]:
    return image.cluster_id, image.topics, image.topics_by_id, image.dynamic_broker_configs, image.next_producer_id


def state_after(commits: list[list[DurableChange]], cluster_id: str) -> tuple[object, ...]:
    image = ClusterImage(cluster_id)
    for changes in commits:
        for change in changes:
            image.apply(change)
    return state(image)


def test_a_new_directory_gets_kafkas_meta_properties(tmp_path: Path) -> None:
    opened = open_store(tmp_path / "deep" / "data")
    opened.close()
    properties = {
        entry.key: entry.value
        for entry in parse_properties((tmp_path / "deep" / "data" / META_PROPERTIES).read_text(encoding="utf-8"))
    }
    assert properties.keys() == {"version", "cluster.id", "node.id", "directory.id"}
    assert properties["version"] == "1"
    assert properties["node.id"] == "1"
    assert properties["cluster.id"] == opened.image.cluster_id
    assert len(uuid_bytes(properties["cluster.id"])) == len(uuid_bytes(properties["directory.id"])) == 16


def test_everything_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    for changes in COMMITS:
        commit(first, changes)
    expected = state(first.image)
    assert expected == state_after(COMMITS, first.image.cluster_id)
    first.close()
    second = open_store(tmp_path)
    assert state(second.image) == expected
    second.close()


def test_a_journal_cut_at_any_byte_opens_with_the_whole_commits_before_the_cut(tmp_path: Path) -> None:
    source = tmp_path / "source"
    first = open_store(source)
    cluster_id = first.image.cluster_id
    ends = [(source / JOURNAL).stat().st_size]
    for changes in COMMITS:
        commit(first, changes)
        ends.append((source / JOURNAL).stat().st_size)
    first.close()
    content = (source / JOURNAL).read_bytes()

    target = tmp_path / "target"
    target.mkdir()
    (target / META_PROPERTIES).write_bytes((source / META_PROPERTIES).read_bytes())
    expected = [state_after(COMMITS[:count], cluster_id) for count in range(len(COMMITS) + 1)]
    for cut in range(ends[0], len(content) + 1):
        whole_commits = sum(end <= cut for end in ends) - 1
        # The second form is what a crash leaves when the file had grown but a block never reached the disk.
        for torn in (content[:cut], content[:cut] + b"\0" * 50, content[:cut] + b"\0" * 50 + b"}\n"):
            (target / JOURNAL).write_bytes(torn)
            opened = open_store(target)
            assert state(opened.image) == expected[whole_commits]
            assert (target / JOURNAL).stat().st_size == ends[whole_commits]
            opened.close()


def test_after_a_torn_line_the_journal_goes_on(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(b'01234567 [{"type":"topic_del')
    opened = open_store(tmp_path)
    commit(opened, COMMITS[0])
    opened.close()
    again = open_store(tmp_path)
    assert len(again.image.topics) == 2
    again.close()


def test_every_flipped_bit_before_the_last_line_is_refused_with_file_and_line(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    for changes in COMMITS[:2]:
        commit(first, changes)
    first.close()
    path = tmp_path / JOURNAL
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        if position == len(content) - 1:
            continue  # Without its newline the last line counts as torn.
        with pytest.raises(StoreError, match=rf"{JOURNAL}:\d+: .*restore"):
            open_store(tmp_path)


def test_a_line_that_is_no_line_is_damage() -> None:
    with pytest.raises(JournalDamage):
        decode_lines(b"nonsense\n" + encode_line([]))
    assert decode_lines(b"").values == []


@pytest.mark.parametrize("content", [b"", b"0123", encode_line([]), encode_line({"format": 1}), encode_line({"a": 1})])
def test_a_journal_without_its_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / JOURNAL).write_bytes(content)
    with pytest.raises(StoreError, match=f"{JOURNAL}:1"):
        open_store(tmp_path)


def test_a_line_that_cannot_be_applied_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    for value in ([{"type": "unheard_of"}], [{"type": "topic_deleted", "topic_id": "A" * 22}], {"type": "x"}):
        content = (tmp_path / JOURNAL).read_bytes()
        (tmp_path / JOURNAL).write_bytes(content + encode_line(value))
        with pytest.raises(StoreError, match=f"{JOURNAL}:2"):
            open_store(tmp_path)
        (tmp_path / JOURNAL).write_bytes(content)


def test_a_journal_of_a_newer_penstock_is_refused(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(encode_line({"format": 2}))
    with pytest.raises(StoreError, match="newer Penstock"):
        open_store(tmp_path)


def test_a_missing_journal_is_not_taken_for_an_empty_cluster(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    (tmp_path / JOURNAL).unlink()
    with pytest.raises(StoreError, match="missing"):
        open_store(tmp_path)


def test_a_crash_before_meta_properties_was_written_heals(tmp_path: Path) -> None:
    opened = open_store(tmp_path)
    opened.close()
    before = (tmp_path / META_PROPERTIES).read_bytes()
    (tmp_path / META_PROPERTIES).unlink()
    open_store(tmp_path).close()
    assert (tmp_path / META_PROPERTIES).read_bytes() == before


def test_another_nodes_or_clusters_directory_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path, cluster_id="first").close()
    with pytest.raises(StoreError, match=r"belongs to node 1, not to node 2; set node.id=1"):
        LocalJournal.open(tmp_path, node_id=2, new_uuid=SeededEntropy().uuid)
    with pytest.raises(StoreError, match="belongs to the cluster first, not to second"):
        open_store(tmp_path, cluster_id="second")
    open_store(tmp_path, cluster_id="first").close()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cluster.id=first", "cluster.id=second", "cluster.id is second"),
        ("node.id=1", "node.id=4", "node.id is 4"),
        ("version=1", "version=0", "version=0 is not supported"),
        ("version=1", "version=\\uzzzz", "hexadecimal"),
    ],
)
def test_a_foreign_meta_properties_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    open_store(tmp_path, cluster_id="first").close()
    path = tmp_path / META_PROPERTIES
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(StoreError, match=message):
        open_store(tmp_path)


def test_the_directory_is_locked_against_other_processes(tmp_path: Path, journal: LocalJournal) -> None:
    program = f"""
import pathlib
from penstock.metadata.data_directory import StoreError
from penstock.metadata.store_local import LocalJournal
try:
    LocalJournal.open(pathlib.Path({str(tmp_path)!r}), node_id=1, new_uuid=lambda: bytes(16))
except StoreError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "in use by another broker" in result.stdout


def test_a_closed_store_can_be_opened_again_at_once(tmp_path: Path) -> None:
    for _ in range(3):
        open_store(tmp_path).close()


def test_a_path_that_is_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="check the data directory"):
        open_store(tmp_path / "file")


def full_disk_after(room: int) -> Callable[[int, memoryview, int], int]:
    """A pwrite that takes `room` more bytes and then finds the disk full, as a real one does: half a line first."""
    real = os.pwrite
    left = room

    def pwrite(fd: int, content: memoryview, position: int) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, content[:left], position)
        left -= written
        return written

    return pwrite


@pytest.mark.parametrize("room", [0, 1, 40])
def test_on_a_full_disk_the_change_fails_and_later_ones_succeed(
    tmp_path: Path, journal: LocalJournal, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    commit(journal, COMMITS[0])
    before, content = state(journal.image), (tmp_path / JOURNAL).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_disk_after(room))
        with pytest.raises(BrokerError, match="No space left") as caught:
            commit(journal, COMMITS[1])
        with pytest.raises(BrokerError):
            commit(journal, COMMITS[2])
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert state(journal.image) == before
    assert (tmp_path / JOURNAL).read_bytes() == content
    commit(journal, COMMITS[1])
    commit(journal, COMMITS[2])


def test_after_a_failed_fsync_nothing_is_acknowledged_until_a_restart(
    tmp_path: Path, journal: LocalJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(BrokerError, match="restart the broker"):
            commit(journal, COMMITS[0])
    with pytest.raises(BrokerError, match="restart the broker"):
        commit(journal, COMMITS[0])
    assert journal.image.topics == {}


def grow(journal: LocalJournal) -> None:
    for number in range(1000):
        commit(journal, [TopicConfigChanged(topic_id(1), {"retention.ms": str(number)})])


def test_a_journal_that_has_grown_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    first = open_store(tmp_path)
    commit(first, COMMITS[0])
    commit(first, [ProducerIdsAllocated(ProducerId(1000))])
    grow(first)
    grow(first)
    expected = state(first.image)
    assert (tmp_path / JOURNAL).stat().st_size < COMPACTION_BYTES_MIN + 1000
    first.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [META_PROPERTIES, JOURNAL]
    second = open_store(tmp_path)
    assert state(second.image) == expected
    second.close()


def test_a_compaction_that_finds_the_disk_full_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    real = os.open

    def no_new_files(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, flags, mode)

    first = open_store(tmp_path)
    commit(first, COMMITS[0])
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_new_files)
        grow(first)
    size = (tmp_path / JOURNAL).stat().st_size
    assert size > COMPACTION_BYTES_MIN
    expected = state(first.image)
    first.close()
    second = open_store(tmp_path)
    assert state(second.image) == expected
    assert (tmp_path / JOURNAL).stat().st_size < size
    second.close()


def test_a_crash_before_the_rename_leaves_the_old_journal(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    commit(first, COMMITS[0])
    first.close()
    (tmp_path / (JOURNAL + ".tmp")).write_bytes(b"half a sn")
    second = open_store(tmp_path)
    assert len(second.image.topics) == 2
    second.close()


def test_two_thousand_topics_are_neither_slow_nor_compacted_for_being_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    first = open_store(tmp_path)
    for number in range(2000):
        commit(first, [created(f"topic-{number}", number + 1)])
    lines = (tmp_path / JOURNAL).read_bytes().count(b"\n")
    first.close()
    assert lines == 2001
    second = open_store(tmp_path)
    assert len(second.image.topics) == 2000
    second.close()
