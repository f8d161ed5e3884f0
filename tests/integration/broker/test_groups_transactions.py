"""Offsets inside transactions, over the wire: held back until the end, whatever happens to the broker in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from penstock.protocol.definitions.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.definitions.end_txn import EndTxnRequest
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.definitions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.integration.broker.conversation import Topic, create_topic
from tests.integration.broker.group_conversation import (
    NOTHING_COMMITTED,
    ConsumerMember,
    Member,
    commit_ok,
    committed,
    committed_offset,
    delete_group,
    list_groups,
)
from tests.wire_client import WireClient


class TransactionalProducer:
    """As a client of KIP-890's second part: every transaction has an epoch of its own, which EndTxn tells."""

    def __init__(self, client: WireClient, transactional_id: str) -> None:
        self.client = client
        self.transactional_id = transactional_id
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = client.ask(request, 5)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def commit_offsets(
        self, group: str, topic: Topic, offsets: dict[int, int], *, version: int = 5, **changed: Any
    ) -> dict[int, ErrorCode]:
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="m")
            for index, offset in offsets.items()
        ]
        fields: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions)],
        }
        (answer,) = self.client.ask(TxnOffsetCommitRequest(**(fields | changed)), version).topics
        return {each.partition_index: ErrorCode(each.error_code) for each in answer.partitions}

    def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self.client.ask(request, 5)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[WireClient]:
    with WireClient(shared_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(client: WireClient) -> Topic:
    return create_topic(client, f"topic-{uuid4().hex}", partitions=2)


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex}"


@pytest.fixture
def producer(client: WireClient) -> TransactionalProducer:
    return TransactionalProducer(client, f"transactions-{uuid4().hex}")


def is_unstable(client: WireClient, group: str, topic: Topic, partition: int = 0) -> bool:
    (found,) = committed(client, group, topic, (partition,), require_stable=True).values()
    return bool(found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
def test_offsets_count_when_the_transaction_commits(
    client: WireClient, producer: TransactionalProducer, group: str, topic: Topic, commits: bool
) -> None:
    commit_ok(client, group, topic, {0: 1})
    assert producer.commit_offsets(group, topic, {0: 2, 1: 3}) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    assert committed_offset(client, group, topic) == 1
    assert is_unstable(client, group, topic)

    producer.end(commit=commits)
    assert committed_offset(client, group, topic, 0) == (2 if commits else 1)
    assert committed_offset(client, group, topic, 1) == (3 if commits else NOTHING_COMMITTED)
    assert not is_unstable(client, group, topic)

    assert producer.commit_offsets(group, topic, {0: 4}) == {0: ErrorCode.NONE}
    producer.end(commit=True)
    assert committed_offset(client, group, topic) == 4


@pytest.mark.parametrize("version", range(5))
def test_older_producers_add_the_offsets_first(
    client: WireClient, producer: TransactionalProducer, group: str, topic: Topic, version: int
) -> None:
    refused = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert producer.commit_offsets(group, topic, {0: 2}, version=version) == {0: refused}

    added = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    assert client.ask(added, 3).error_code == ErrorCode.NONE
    assert producer.commit_offsets(group, topic, {0: 2}, version=version) == {0: ErrorCode.NONE}


def test_who_may_not_commit_in_a_transaction(
    client: WireClient, producer: TransactionalProducer, group: str, topic: Topic
) -> None:
    def codes(**changed: Any) -> set[ErrorCode]:
        return set(producer.commit_offsets(group, topic, {0: 2}, **changed).values())

    member = Member(client, group)
    member.settle()
    me = {"member_id": member.member_id, "generation_id": member.generation_id}
    assert codes(**me | {"generation_id": 9}) == {ErrorCode.ILLEGAL_GENERATION}
    assert codes(**me | {"member_id": "stranger"}) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert codes(generation_id=3, group_id=f"no-{group}") == {ErrorCode.ILLEGAL_GENERATION}
    assert codes(producer_epoch=producer.epoch - 1) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert codes(**me) == {ErrorCode.NONE}
    assert producer.commit_offsets(group, Topic("no-such-topic", b""), {0: 1}) == {
        0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    producer.end(commit=True)
    assert committed_offset(client, group, topic) == 2
    assert f"no-{group}" not in list_groups(client)


def test_a_member_of_the_newer_protocol_is_fenced_by_its_epoch(
    client: WireClient, producer: TransactionalProducer, group: str, topic: Topic
) -> None:
    member = ConsumerMember(client, group, (topic.name,), "member")
    member.beat()
    late = producer.commit_offsets(
        group, topic, {0: 2}, member_id=member.member_id, generation_id=member.member_epoch + 1
    )
    assert late == {0: ErrorCode.ILLEGAL_GENERATION}
    timely = producer.commit_offsets(group, topic, {0: 2}, member_id="member", generation_id=member.member_epoch)
    assert timely == {0: ErrorCode.NONE}
    producer.end(commit=True)
    assert committed_offset(client, group, topic) == 2


def test_a_deleted_group_is_not_brought_back_by_its_open_transaction(
    client: WireClient, producer: TransactionalProducer, group: str, topic: Topic
) -> None:
    producer.commit_offsets(group, topic, {0: 2})
    assert group in list_groups(client)
    assert delete_group(client, group) == ErrorCode.NONE
    producer.end(commit=True)
    assert committed_offset(client, group, topic) == NOTHING_COMMITTED


def test_a_kill_changes_nothing_about_what_is_held_back() -> None:
    with Broker() as broker:
        with WireClient(broker.bootstrap_servers) as client:
            topic = create_topic(client, "topic")
            producers = {kind: TransactionalProducer(client, kind) for kind in ("committed", "aborted", "open")}
            for kind, producer in producers.items():
                commit_ok(client, kind, topic, {0: 1})
                assert producer.commit_offsets(kind, topic, {0: 2}) == {0: ErrorCode.NONE}
            producers["committed"].end(commit=True)
            producers["aborted"].end(commit=False)
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            assert committed_offset(client, "committed", topic) == 2
            assert committed_offset(client, "aborted", topic) == 1
            assert committed_offset(client, "open", topic) == 1
            assert [is_unstable(client, kind, topic) for kind in producers] == [False, False, True]
            producers["open"].client = client
            producers["open"].end(commit=True)
            assert committed_offset(client, "open", topic) == 2
            assert not is_unstable(client, "open", topic)
