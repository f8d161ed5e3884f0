"""TxnOffsetCommit: offsets of a group as a part of a producer's transaction. They count when it commits.

Versions: 0 to 5. Since 3 the producer says for which member it commits (KIP-447); since 5 the offsets' partition joins
the transaction with this request, where before AddOffsetsToTxn had to come first (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from penstock.broker.groups.offset_commits import AskedCommits, find_readable_partition
from penstock.broker.groups.offsets import Committer
from penstock.broker.groups.reply import GroupReply
from penstock.broker.request_context import RequestContext
from penstock.broker.transactions.admission import Joining, admit
from penstock.core.acls import AclOperation
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.protocol.definitions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_encoding import BatchProducer

ABORTABLE_SINCE: Final = 4
JOINS_SINCE: Final = 5


def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> Any:
    try:
        context.access.check_transactional_id(AclOperation.WRITE, request.transactional_id)
        context.access.check_group(AclOperation.READ, request.group_id)
    except BrokerError as error:
        return _refused(request, error)
    return context.node.groups.log.with_topic(lambda: _handle(request, context))


def _refused(request: TxnOffsetCommitRequest, error: BrokerError) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error.code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse | GroupReply:
    response = TxnOffsetCommitResponse()
    asked = AskedCommits(context.node)
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answered)
        find = partial(find_readable_partition, context, topic.name)
        for partition in topic.partitions:
            result = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            answered.partitions.append(result)
            asked.add(partition, result, find)
    if asked.is_empty:
        return response

    def refused(error: BrokerError) -> TxnOffsetCommitResponse:
        asked.refuse_all(_known_to_producers(error.code))
        return response

    reply = GroupReply(lambda _: response, refused)
    try:
        _TransactionalCommit(request, context, asked, reply).begin()
    except BrokerError as error:
        return refused(error)
    return reply


class _TransactionalCommit:
    """Between the transaction coordinator, which has to let the producer in, and the group."""

    def __init__(
        self, request: TxnOffsetCommitRequest, context: RequestContext, asked: AskedCommits, reply: GroupReply
    ) -> None:
        self._request = request
        self._context = context
        self._asked = asked
        self._reply = reply

    def begin(self) -> None:
        request, groups = self._request, self._context.node.groups
        shard = groups.shard(request.group_id)
        place = TopicPartition(groups.log.topic_name, shard.index)
        admit(
            self._context.node,
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            frozenset({place}),
            _joining(self._context.api_version),
            lambda failures: self._admitted(failures.get(place)),
        )

    def _admitted(self, failure: BrokerError | None) -> None:
        if failure is not None:
            self._reply.fail(failure)
            return
        request = self._request
        try:
            stale = self._context.node.groups.offsets.commit_in_transaction(
                request.group_id,
                Committer(
                    request.member_id, request.group_instance_id, request.generation_id, self._context.api_version
                ),
                BatchProducer(request.producer_id, request.producer_epoch),
                self._asked.commits,
                self._reply,
            )
        except BrokerError as error:
            self._reply.fail(error)
        else:
            self._asked.refuse(stale, ErrorCode.ILLEGAL_GENERATION)


def _joining(api_version: int) -> Joining:
    if api_version >= JOINS_SINCE:
        return Joining.WITH_THE_WRITE
    return Joining.BEFORE if api_version >= ABORTABLE_SINCE else Joining.BEFORE_WITH_OLD_ERRORS


def _known_to_producers(code: ErrorCode) -> ErrorCode:
    """A producer knows generations, and nothing of epochs."""
    return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code
