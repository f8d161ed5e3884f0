"""Group commit as its callers see it: shared rounds, the first failure is the last word, deleted topics fail nobody."""

from __future__ import annotations

import asyncio
import errno
from typing import cast

import pytest

from penstock.broker.flush import Flusher
from penstock.broker.partition import Partition
from penstock.core.metrics import Histogram
from penstock.log.filesystem import FileMoved


class FakeTicket:
    def __init__(self, partition: FakePartition) -> None:
        self._partition = partition

    def sync(self) -> None:
        self._partition.syncs += 1
        self._partition.is_deleted |= self._partition.deleted_by_sync
        if self._partition.sync_error is not None:
            raise self._partition.sync_error


class FakePartition:
    """Its own log: enough of both for a flusher."""

    def __init__(self) -> None:
        self.is_deleted = False
        self.deleted_by_sync = False  # the topic is deleted while its sync runs
        self.syncs = 0
        self.completed = 0
        self.offline_reason: OSError | None = None
        self.moved: str | None = None
        self.begin_error: OSError | None = None
        self.sync_error: OSError | None = None

    @property
    def log(self) -> FakePartition:
        return self

    def begin_flush(self) -> FakeTicket:
        if self.begin_error is not None:
            raise self.begin_error
        return FakeTicket(self)

    def flushed(self, ticket: FakeTicket) -> None:
        self.completed += 1

    def moved_file(self, ticket: FakeTicket) -> str | None:
        return self.moved

    def take_offline(self, reason: OSError) -> None:
        self.offline_reason = reason


class Flushing:
    """A flusher, and what it told."""

    def __init__(self) -> None:
        self.fatal: list[OSError] = []
        self.flush_time = Histogram({}, (0.001,))
        self.flusher = Flusher(asyncio.get_running_loop(), self.fatal.append, self.flush_time)

    def request(self, partition: FakePartition) -> asyncio.Future[OSError | None]:
        answer: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self.flusher.request(cast(Partition, partition), answer.set_result)
        return answer

    async def flush(self, *partitions: FakePartition) -> list[OSError | None]:
        answers = [self.request(partition) for partition in partitions]
        return list(await asyncio.wait_for(asyncio.gather(*answers), 10))


def eio() -> OSError:
    return OSError(errno.EIO, "Input/output error")


def test_requests_of_one_turn_share_a_round() -> None:
    async def scenario() -> None:
        flushing = Flushing()
        one, other = FakePartition(), FakePartition()

        assert await flushing.flush(one, other, one, one) == [None] * 4

        assert (one.syncs, other.syncs, flushing.flusher.rounds) == (1, 1, 1)
        assert (one.completed, other.completed) == (1, 1)
        assert flushing.flush_time.count == 1
        flushing.flusher.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("when", ["begin_error", "sync_error"])
def test_the_first_failure_is_fatal_for_all_who_wait_and_all_who_come(when: str) -> None:
    async def scenario() -> None:
        flushing = Flushing()
        good, bad = FakePartition(), FakePartition()
        failure = eio()
        setattr(bad, when, failure)

        assert await flushing.flush(good, bad) == [failure, failure]
        assert await flushing.flush(good) == [failure]

        assert flushing.fatal == [failure]
        assert good.completed == 0
        flushing.flusher.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("deleted_at", ["before the round", "during the round"])
def test_a_topic_that_was_deleted_meanwhile_fails_nobody(deleted_at: str) -> None:
    async def scenario() -> None:
        flushing = Flushing()
        neighbour, deleted = FakePartition(), FakePartition()
        deleted.sync_error = OSError(errno.ENOENT, "No such file or directory")
        answers = [flushing.request(deleted), flushing.request(neighbour)]
        if deleted_at == "before the round":
            deleted.begin_error = deleted.sync_error
            deleted.is_deleted = True
        else:
            deleted.deleted_by_sync = True

        assert await asyncio.wait_for(asyncio.gather(*answers), 10) == [None, None]
        assert await flushing.flush(neighbour) == [None]

        assert flushing.fatal == []
        assert neighbour.completed == 2
        assert deleted.syncs == (0 if deleted_at == "before the round" else 1)
        flushing.flusher.close()

    asyncio.run(scenario())


def test_a_partition_whose_file_was_moved_fails_alone() -> None:
    async def scenario() -> None:
        flushing = Flushing()
        neighbour, moved, unopened, rolled = (FakePartition() for _ in range(4))
        moved.sync_error, moved.moved = FileMoved("topic-0/0.log"), "topic-0/0.log"
        unopened.begin_error = FileNotFoundError(errno.ENOENT, "No such file or directory", "topic-1/0.log")
        rolled.sync_error = FileMoved("topic-2/0.log")  # the log itself removed it, with deleted records

        failures = await flushing.flush(neighbour, moved, unopened, rolled)

        assert [failure and failure.filename for failure in failures] == [None, "topic-0/0.log", "topic-1/0.log", None]
        assert flushing.fatal == []
        assert (neighbour.completed, moved.completed, unopened.completed, rolled.completed) == (1, 0, 0, 1)
        flushing.flusher.close()

    asyncio.run(scenario())
