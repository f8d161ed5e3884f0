"""A shard's answers: none before its records are in the log, and none but the error when they did not get there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from penstock.broker.coordinator_log import CoordinatorLog
from penstock.broker.groups.reply import GatheredReply, GroupReply
from penstock.broker.groups.shard import GroupShard
from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.protocol.error_codes import BrokerError, ErrorCode

RECORDS = [CoordinatorRecord(b"key", b"value")]
FAILURE = BrokerError(ErrorCode.NOT_COORDINATOR)


class SlowLog:
    """Commits when the test says so."""

    def __init__(self) -> None:
        self.appends: list[Callable[[BrokerError | None], None]] = []

    def append(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        *,
        on_committed: Callable[[BrokerError | None], None],
        **producer: object,
    ) -> None:
        self.appends.append(on_committed)


class ShardUnderTest:
    def __init__(self) -> None:
        self.log = SlowLog()
        self.failed: list[BrokerError] = []
        self.said: list[str] = []
        self.shard = GroupShard(3, cast(CoordinatorLog, self.log), lambda shard, error: self.failed.append(error))

    def answer(self, text: str) -> GroupReply:
        reply = GroupReply(self.said.append, lambda error: self.said.append(f"not {text}"))
        self.shard.answer(reply, text)
        return reply


def test_an_answer_without_records_before_it_is_given_at_once() -> None:
    test = ShardUnderTest()
    assert test.answer("one").done
    assert test.said == ["one"]
    test.shard.append([])
    assert test.log.appends == []


def test_answers_wait_for_every_record_before_them() -> None:
    test = ShardUnderTest()
    test.shard.append(RECORDS)
    test.answer("one")
    test.shard.append(RECORDS)
    test.answer("two")
    assert test.said == []

    test.log.appends[0](None)
    assert test.said == ["one"]
    test.answer("three")
    test.log.appends[1](None)
    assert test.said == ["one", "two", "three"]


def test_a_record_that_is_not_written_ends_the_shard() -> None:
    test = ShardUnderTest()
    test.shard.append(RECORDS)
    test.answer("one")
    test.shard.append(RECORDS)
    test.answer("two")

    test.log.appends[0](FAILURE)
    assert test.said == ["not one", "not two"]
    assert test.failed == [FAILURE]
    test.log.appends[1](None)  # it was written, but says what the memory of a lost shard thought
    test.shard.append(RECORDS)
    test.answer("three")
    assert test.said == ["not one", "not two", "not three"]
    assert len(test.log.appends) == 2
    assert test.failed == [FAILURE]


def test_a_response_about_many_groups_waits_for_all_of_them() -> None:
    one, two = ShardUnderTest(), ShardUnderTest()
    one.shard.append(RECORDS)
    two.shard.append(RECORDS)
    said: list[str] = []
    reply = GatheredReply(lambda: list(said))
    reply.await_writes(one.shard, lambda error: said.append("one failed"))
    reply.await_writes(two.shard, lambda error: said.append("two failed"))
    reply.all_named()
    two.log.appends[0](FAILURE)
    assert not reply.done
    one.log.appends[0](None)
    assert reply.response == ["two failed"]


def test_a_response_about_no_group_does_not_wait() -> None:
    assert GatheredReply(lambda: "nothing").all_named().response == "nothing"
