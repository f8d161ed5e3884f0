"""The broker's side of compaction and retention: what is cleaned when, and what a failure or a stop does."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.cleaning_process import CleaningFailed, CleaningProcess
from penstock.broker.derived_metrics import watch_node
from penstock.broker.log_cleaner import LogCleaner
from penstock.broker.log_retention import LogRetention
from penstock.broker.node import Node
from penstock.broker.partition import Partition
from penstock.core import limits
from penstock.log.cleaning.cleaner import CleaningOrder, CleaningResult, clean
from penstock.log.filesystem import RealFileSystem
from penstock.log.partition_log import PartitionLog
from penstock.metadata.topics import NewTopic
from tests.clocks import ManualClock
from tests.unit.broker.nodes import make_topics, node_in
from tests.unit.log.cleaning.compacted_logs import contents, put, seal
from tests.unit.log.stored_batches import append, make_marker

COMPACT = (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.1"), ("internal.segment.bytes", "2000"))
NEWEST = [(2, "a", "3"), (3, "b", "1")]


class InlineProcess(CleaningProcess):
    """Cleans in the cleaner's thread."""

    def run(self, order: CleaningOrder) -> CleaningResult:
        return clean(order, RealFileSystem())


class FailingProcess(CleaningProcess):
    def run(self, order: CleaningOrder) -> CleaningResult:
        raise CleaningFailed("damage at position 0: somewhere", may_succeed_later=False)


class FullDisk(InlineProcess):
    """Writes a file, and finds no room for the next; it has more the second time."""

    is_full = True

    def run(self, order: CleaningOrder) -> CleaningResult:
        if FullDisk.is_full:
            FullDisk.is_full = False
            (Path(order.directory) / f"{0:020d}.log.cleaned").touch()
            raise CleaningFailed("No space left on device", may_succeed_later=True)
        return super().run(order)


def dirty_partition(node: Node, name: str = "compacted") -> Partition:
    make_topics(node, NewTopic(name, 1, configs=COMPACT))
    partition = node.topics.partition(name, 0)
    write(partition.log, "1", "2", "3")
    partition._counts_up_to(partition.log.log_end_offset)
    return partition


def write(log: PartitionLog, *values: str) -> None:
    for value in values:
        put(log, ("a", value))
    put(log, ("b", "1"))
    seal(log)


def in_node(directory: Path, scenario: Callable[[Node, ManualClock], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        clock = ManualClock()
        with node_in(
            directory, {name.replace("_", "."): value for name, value in settings.items()}, clock=clock
        ) as node:
            await scenario(node, clock)

    asyncio.run(main())


async def until_idle(cleaner: LogCleaner) -> None:
    await eventually(lambda: not cleaner._is_running)


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("process", [InlineProcess, CleaningProcess], ids=["in a thread", "in a process"])
def test_a_dirty_log_is_compacted_and_its_offset_checkpointed(tmp_path: Path, process: type[CleaningProcess]) -> None:
    async def scenario(node: Node, clock: ManualClock) -> None:
        partition = dirty_partition(node)
        cleaner = LogCleaner(node, process)
        cleaner.take_turn(clock.now_ms())
        put(partition.log, ("new", "1"))  # while it is cleaned
        await until_idle(cleaner)
        assert contents(partition.log) == [*NEWEST, (4, "new", "1")]
        cleaner.stop()
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\ncompacted 0 4\n"

    in_node(tmp_path, scenario)


def test_the_dirtiest_log_comes_first_and_then_the_others(tmp_path: Path) -> None:
    async def scenario(node: Node, clock: ManualClock) -> None:
        small, large = dirty_partition(node, "small"), dirty_partition(node, "large")
        cleaner = LogCleaner(node, InlineProcess)
        for _ in range(2):
            cleaner.take_turn(clock.now_ms())
            await until_idle(cleaner)
        assert contents(small.log) == contents(large.log) == NEWEST
        write(small.log, "4")
        write(large.log, *"456789")
        for partition in (small, large):
            partition._counts_up_to(partition.log.log_end_offset)
        cleaner.take_turn(clock.now_ms())
        await until_idle(cleaner)
        assert len(contents(large.log)) == 2
        assert len(contents(small.log)) == 4
        cleaner.stop()

    in_node(tmp_path, scenario)


def test_it_sleeps_when_there_is_nothing_to_do(tmp_path: Path) -> None:
    async def scenario(node: Node, clock: ManualClock) -> None:
        cleaner = LogCleaner(node, InlineProcess)
        cleaner.take_turn(clock.now_ms())
        partition = dirty_partition(node)
        cleaner.take_turn(clock.now_ms() + 4999)
        assert not cleaner._is_running
        cleaner.take_turn(clock.now_ms() + 5000)
        await until_idle(cleaner)
        assert contents(partition.log) == NEWEST
        cleaner.stop()

    in_node(tmp_path, scenario, log_cleaner_backoff_ms="5000")


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    async def scenario(node: Node, clock: ManualClock) -> None:
        dirty_partition(node)
        cleaner = LogCleaner(node, FailingProcess)
        cleaner.take_turn(clock.now_ms())
        assert not cleaner._is_running

    in_node(tmp_path, scenario, log_cleaner_enable="false")


def test_a_failure_is_told_once_and_leaves_the_log_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: Node, clock: ManualClock) -> None:
        partition = dirty_partition(node)
        before = contents(partition.log)
        cleaner = LogCleaner(node, FailingProcess)
        for _ in range(3):
            cleaner.take_turn(clock.now_ms())
            await until_idle(cleaner)
            clock.advance(60_000)
        assert contents(partition.log) == before
        assert node.metrics.value("penstock_cleaner_runs_total", result="failure") == 1
        watch_node(node, node.metrics)
        assert node.metrics.value("kafka_log_logcleanermanager_uncleanable_partitions_count") == 1
        cleaner.stop()

    in_node(tmp_path, scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "compacted-0: not compacted until the broker starts again: damage at position 0: somewhere"
    ]


def test_a_full_disk_is_tried_again_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: Node, clock: ManualClock) -> None:
        partition = dirty_partition(node)
        cleaner = LogCleaner(node, FullDisk)
        cleaner.take_turn(clock.now_ms())
        await until_idle(cleaner)
        await eventually(lambda: not list(tmp_path.glob("*/*.cleaned")))
        cleaner.take_turn(clock.now_ms())
        assert not cleaner._is_running
        clock.advance(300_000)
        cleaner.take_turn(clock.now_ms())
        await until_idle(cleaner)
        assert contents(partition.log) == NEWEST
        cleaner.stop()

    in_node(tmp_path, scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "compacted-0: cannot be compacted now: No space left on device"
    ]


def test_a_swap_waits_for_a_flush_of_transaction_indexes(tmp_path: Path) -> None:
    """The flush may be writing those of segments that are about to be replaced."""

    async def scenario(node: Node, clock: ManualClock) -> None:
        partition = dirty_partition(node)
        log = partition.log
        put(log, ("t", "aborted"), producer=(1, 0, 0), transactional=True)
        append(log, make_marker(1, 0, committed=False))
        log._appender.roll()
        put(log, ("c", "1"))
        ticket = log.begin_flush()
        assert any(path.endswith(".txnindex") for path, _ in ticket.small_files)
        cleaner = LogCleaner(node, InlineProcess)
        cleaner.take_turn(clock.now_ms())
        await asyncio.sleep(0.2)
        assert cleaner._is_running
        assert len(log.segment_base_offsets) == 3
        ticket.sync()
        log.complete_flush(ticket)
        await until_idle(cleaner)
        assert contents(log)[:2] == NEWEST
        cleaner.stop()

    in_node(tmp_path, scenario)


def test_a_topic_that_is_deleted_meanwhile_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: Node, clock: ManualClock) -> None:
        partition = dirty_partition(node)
        cleaner = LogCleaner(node, InlineProcess)
        cleaner.take_turn(clock.now_ms())
        partition.deleted()
        await until_idle(cleaner)
        partition.is_deleted = False
        cleaner.stop()

    in_node(tmp_path, scenario)
    assert caplog.records == []


def test_a_stop_ends_the_process(tmp_path: Path) -> None:
    process = CleaningProcess()
    process.end()
    order = CleaningOrder(str(tmp_path), (), 0, 0, 0, 1, 1, (), {}, 1)
    with pytest.raises(CleaningFailed, match="the cleaner ended with -9"):
        process.run(order)


def test_a_process_that_has_ended_before_it_got_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class EndedAtOnce(subprocess.Popen[bytes]):
        def kill(self) -> None:
            super().kill()
            self.wait()

    monkeypatch.setattr(subprocess, "Popen", EndedAtOnce)
    process = CleaningProcess()
    process.end()
    order = CleaningOrder(str(tmp_path), (), 0, 0, 0, 1, 1, (), {}, 1)
    with pytest.raises(CleaningFailed, match="the cleaner ended with -9"):
        process.run(order)


def test_the_process_ends_with_its_broker(tmp_path: Path) -> None:
    """Its standard input ends, as it does when the broker is killed, while the cleaning goes on."""
    order = CleaningOrder(str(tmp_path), (), 0, 0, 0, 1, 1, (), {}, 1)
    command = [sys.executable, "-c", _WAITING_CLEANER]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(order))
        process.stdin.close()
        assert process.wait(30) == 1


_WAITING_CLEANER = """
import time
from penstock.cleaner import __main__ as cleaner
cleaner.clean = lambda *arguments: time.sleep(3600)
cleaner.main()
"""


class TestRetention:
    def test_all_partitions_are_checked_some_in_each_turn(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "RETENTION_PARTITIONS_PER_TURN", 2)

        async def scenario(node: Node, clock: ManualClock) -> None:
            make_topics(node, NewTopic("old", 5, configs=(("retention.ms", "1000"),)))
            partitions = [node.topics.partition("old", index) for index in range(5)]
            for partition in partitions:
                put(partition.log, ("a", "1"))
                partition._counts_up_to(1)
            retention = LogRetention(node)
            clock.advance(29_999)
            retention.take_turn(clock.now_ms())
            assert [partition.log.log_start_offset for partition in partitions] == [0] * 5
            clock.advance(1)
            started = []
            for _ in range(4):
                retention.take_turn(clock.now_ms())
                started.append(sum(partition.log.log_start_offset for partition in partitions))
            assert started[:2] == [2, 4]
            assert started[-1] == 5

        in_node(tmp_path, scenario)

    def test_files_are_removed_in_a_thread_when_they_are_due(self, tmp_path: Path) -> None:
        async def scenario(node: Node, clock: ManualClock) -> None:
            make_topics(node, NewTopic("old", 1, configs=(("retention.ms", "1"), ("file.delete.delay.ms", "5000"))))
            partition = node.topics.partition("old", 0)
            put(partition.log, ("a", "1"))
            partition._counts_up_to(1)
            retention = LogRetention(node)
            clock.advance(30_000)
            retention.take_turn(clock.now_ms())
            deleted = tmp_path / "old-0" / f"{0:020d}.log.deleted"
            assert deleted.exists()
            clock.advance(4999)
            retention.take_turn(clock.now_ms())
            await asyncio.sleep(0.05)
            assert deleted.exists()
            clock.advance(1)
            retention.take_turn(clock.now_ms())
            await eventually(lambda: not deleted.exists())

        in_node(tmp_path, scenario)


def test_compactions_are_counted(tmp_path: Path) -> None:
    async def scenario(node: Node, clock: ManualClock) -> None:
        partition = dirty_partition(node)
        before = partition.log.size_bytes
        cleaner = LogCleaner(node, InlineProcess)
        clock.advance(7)
        assert node.metrics.value("kafka_log_logcleanermanager_time_since_last_run_ms") == 7
        cleaner.take_turn(clock.now_ms())
        await until_idle(cleaner)
        assert node.metrics.value("kafka_log_logcleanermanager_time_since_last_run_ms") == 0
        assert node.metrics.value("penstock_cleaner_runs_total", result="success") == 1
        assert node.metrics.value("penstock_cleaner_runs_total", result="failure") == 0
        assert node.metrics.value("penstock_cleaner_read_bytes_total") == before
        assert node.metrics.value("penstock_cleaner_written_bytes_total") == partition.log.size_bytes < before
        assert node.metrics.value("penstock_cleaner_seconds_total") > 0
        cleaner.stop()

    in_node(tmp_path, scenario)
