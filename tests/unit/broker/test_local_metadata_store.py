"""The local journal behind the event loop: shared fsyncs, a disk that is slow or fails, compaction."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.local_metadata_store import LocalMetadataStore
from penstock.metadata.changes import Change, TopicConfigChanged
from penstock.metadata.image import ClusterImage
from penstock.metadata.store import Decide
from penstock.metadata.store_local import COMPACTION_BYTES_MIN, JOURNAL, LocalJournal
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.clocks import SeededEntropy
from tests.unit.metadata.images import created, topic_id


class Disk:
    """fsyncs that wait until the test lets them go on, or that fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fsyncs = 0
        self.fails = False
        self._open = threading.Event()
        self._open.set()
        self._threads: set[int] = set()
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, fd: int) -> None:
        self.fsyncs += 1
        self._threads.add(threading.get_ident())
        assert self._open.wait(60)
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fsync(fd)

    def hold(self) -> None:
        self.fsyncs = 0
        self._threads.clear()
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    @property
    def held_up_the_loop(self) -> bool:
        return threading.get_ident() in self._threads


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def run(directory: Path, scenario: Callable[[LocalMetadataStore], Awaitable[None]]) -> None:
    async def main() -> None:
        journal = LocalJournal.open(directory, node_id=1, new_uuid=SeededEntropy().uuid)
        store = LocalMetadataStore(journal, asyncio.get_running_loop())
        try:
            await asyncio.wait_for(scenario(store), 30)
        finally:
            store.close()

    asyncio.run(main())


def propose(store: LocalMetadataStore, decide: Decide) -> asyncio.Future[BrokerError | None]:
    told: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
    store.propose(decide, told.set_result)
    return told


def creation(name: str, number: int) -> Decide:
    def decide(image: ClusterImage) -> list[Change]:
        if name in image.topics:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS)
        return [created(name, number)]

    return decide


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it never came to pass")


def test_proposals_that_arrive_during_an_fsync_share_the_next(tmp_path: Path, disk: Disk) -> None:
    async def scenario(store: LocalMetadataStore) -> None:
        disk.hold()
        first = propose(store, creation("first", 1))
        await until(lambda: disk.fsyncs == 1)
        others = [propose(store, creation(f"topic-{number}", number)) for number in range(2, 30)]
        await asyncio.sleep(0.02)
        # The disk is busy, the loop is not, and nothing is promised yet.
        assert disk.fsyncs == 1
        assert not disk.held_up_the_loop
        assert not first.done()
        assert store.image.topics == {}
        disk.release()
        assert await asyncio.gather(first, *others) == [None] * 29
        assert disk.fsyncs == 2
        assert len(store.image.topics) == 29

    run(tmp_path, scenario)
    # One fsync, one line: a crash tears all of them or none.
    assert (tmp_path / JOURNAL).read_bytes().count(b"\n") == 3


def test_a_change_that_could_not_be_written_is_not_applied_and_its_dependents_are_decided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    real = os.pwrite

    def pwrite(fd: int, content: memoryview, position: int) -> int:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, content, position)

    async def scenario(store: LocalMetadataStore) -> None:
        nonlocal full
        told: list[object] = []
        store.subscribe(told.append)
        monkeypatch.setattr(os, "pwrite", pwrite)
        # The second is refused because of the first, in the round that fails. The topic does not exist after all.
        outcomes = await asyncio.gather(*(propose(store, creation("orders", number)) for number in (1, 2)))
        assert [error and error.code for error in outcomes] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert store.image.topics == {}
        assert told == []
        full = False
        assert await propose(store, creation("orders", 3)) is None
        assert [topic.topic_id for topic in store.image.topics.values()] == [topic_id(3)]

    run(tmp_path, scenario)


def test_after_a_failed_fsync_nothing_is_promised_until_a_restart(tmp_path: Path, disk: Disk) -> None:
    async def fail(store: LocalMetadataStore) -> None:
        assert await propose(store, creation("before", 1)) is None
        disk.fails = True
        error = await propose(store, creation("orders", 2))
        disk.fails = False
        again = await propose(store, creation("bills", 3))
        for refusal in (error, again):
            assert refusal is not None
            assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert "restart the broker" in refusal.message
        assert list(store.image.topics) == ["before"]

    async def start_again(store: LocalMetadataStore) -> None:
        assert "before" in store.image.topics
        assert await propose(store, creation("bills", 4)) is None

    run(tmp_path, fail)
    run(tmp_path, start_again)


def test_a_journal_that_has_grown_is_compacted_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    renamed_in: list[int] = []
    rename = os.rename

    def noted_rename(old: Path, new: Path) -> None:
        renamed_in.append(threading.get_ident())
        rename(old, new)

    async def grow(store: LocalMetadataStore) -> None:
        monkeypatch.setattr(os, "rename", noted_rename)
        assert await propose(store, creation("orders", 1)) is None
        for number in range(1500):
            change = TopicConfigChanged(topic_id(1), {"retention.ms": str(number)})
            assert await propose(store, lambda image, change=change: [change]) is None  # type: ignore[misc]

    async def look(store: LocalMetadataStore) -> None:
        [topic] = store.image.topics.values()
        assert topic.configs == {"retention.ms": "1499"}

    run(tmp_path, grow)
    assert renamed_in
    assert threading.get_ident() not in renamed_in
    assert (tmp_path / JOURNAL).stat().st_size < COMPACTION_BYTES_MIN + 1000
    run(tmp_path, look)


def test_a_store_that_is_closed_during_a_write_keeps_the_change_and_answers_nobody(tmp_path: Path, disk: Disk) -> None:
    async def main() -> None:
        journal = LocalJournal.open(tmp_path, node_id=1, new_uuid=SeededEntropy().uuid)
        store = LocalMetadataStore(journal, asyncio.get_running_loop())
        store.subscribe(lambda committed: pytest.fail("a closed node must not be told"))
        disk.hold()
        answers = [propose(store, creation("orders", 1))]
        await until(lambda: disk.fsyncs == 1)
        answers.append(propose(store, creation("bills", 2)))
        threading.Timer(0.05, disk.release).start()
        store.close()
        await asyncio.sleep(0.05)
        assert not any(answer.done() for answer in answers)

    async def look(store: LocalMetadataStore) -> None:
        assert list(store.image.topics) == ["orders"]

    asyncio.run(main())
    run(tmp_path, look)


def test_an_answer_that_raises_does_not_stop_the_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(store: LocalMetadataStore) -> None:
        def explode(error: BrokerError | None) -> None:
            raise ValueError("a bug")

        store.propose(creation("orders", 1), explode)
        assert await propose(store, creation("bills", 2)) is None
        assert sorted(store.image.topics) == ["bills", "orders"]

    run(tmp_path, scenario)
    assert "a bug" in caplog.text
