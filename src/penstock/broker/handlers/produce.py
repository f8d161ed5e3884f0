"""Produce: record batches from a client into the logs.

One batch a partition, checked and staged here; the bytes are written when every frame of the same socket read has been
handled (`appends.py`), and acknowledged after that. acks=0 has no answer: an error closes the connection, as Kafka
does, because it is the only sign that such a producer can notice. acks=all waits until the high watermark has passed
the batch, for `timeout_ms` at most; acks=1 does not.

A request with a transactional id is looked at by `transactions/produce.py` first: its batches are appended only where
the partition is in the producer's open transaction. Transactional batches without one are
TRANSACTIONAL_ID_AUTHORIZATION_FAILED.

Versions: 3 to 13 (topic ids from 13). Version 0 is advertised, never served: librdkafka before 2.1 takes a missing
version 0 as a broker that cannot do lz4.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.appends import AppendGroup
from penstock.broker.batch_validation import InvalidRecords
from penstock.broker.current_leader import CurrentLeader, current_leader
from penstock.broker.deferred import Deferred
from penstock.broker.partition import Partition
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation, ResourceType
from penstock.protocol.definitions.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

ACKS_ALL: Final = -1
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
TOPIC_IDS_SINCE: Final = 13
# As in Kafka, a client of this id may write to the coordinators' topics: tools that repair them use it.
ADMIN_CLIENT_ID: Final = "__admin_client"


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | Deferred | None:
    if not ACKS_ALL <= request.acks <= ACKS_LEADER:
        context.node.request_metrics.failed("Produce", ErrorCode.INVALID_REQUIRED_ACKS)
        return _refused(request)
    pending = PendingProduce(request.acks, request.timeout_ms, context)
    if request.transactional_id is None:
        pending.stage_all(request.topic_data)
    elif not context.access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        pending.refuse_all(request.topic_data, BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    else:
        from penstock.broker.transactions.produce import stage_in_transaction

        pending.in_transaction = True
        stage_in_transaction(pending, request, context)
    return None if request.acks == ACKS_NONE else pending


def _refused(request: ProduceRequest) -> ProduceResponse:
    text = f"acks is 0, 1 or -1 (all), not {request.acks}."
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=ErrorCode.INVALID_REQUIRED_ACKS,
                        base_offset=-1,
                        error_message=text,
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


class PendingProduce(AppendGroup[PartitionProduceResponse]):
    """A produce request between its staging and its acknowledgement."""

    __slots__ = (
        "_acks",
        "_context",
        "_error_text",
        "_leaders",
        "_now_ms",
        "_topics",
        "in_transaction",
        "refusals",
    )

    def __init__(self, acks: int, timeout_ms: int, context: RequestContext) -> None:
        super().__init__(context.node.appends, acks == ACKS_ALL, timeout_ms)
        self._acks = acks
        self._context = context
        self._topics: list[TopicProduceResponse] = []
        self._now_ms = context.node.now_ms()
        self._error_text: str | None = None
        self._leaders: dict[int, CurrentLeader] | None = None  # named to the client, by broker id
        self.in_transaction = False
        self.refusals: dict[Partition, BrokerError] | None = None  # by the transaction coordinator

    def stage_all(self, topics: list[TopicProduceData]) -> None:
        for topic in topics:
            self._stage_topic(topic)
        self._context.node.appends.acknowledge(self)

    def refuse_all(self, topics: list[TopicProduceData], error: BrokerError) -> None:
        for topic in topics:
            responses = [PartitionProduceResponse(index=data.index) for data in topic.partition_data]
            self._topics.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=responses)
            )
            for response in responses:
                self._refuse(response, error.code, error.message)
        self._context.node.appends.acknowledge(self)

    def _stage_topic(self, topic: TopicProduceData) -> None:
        responses: list[PartitionProduceResponse] = []
        self._topics.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=responses)
        )
        for data in topic.partition_data:
            response = PartitionProduceResponse(index=data.index)
            responses.append(response)
            try:
                self._stage(topic, data.index, data.records, response)
            except BrokerError as error:
                # In a call of its own: a variable here that kept the error would keep this frame, and the request.
                self._refuse_batch(topic, response, self._unless_fenced(error))

    def _refuse_batch(self, topic: TopicProduceData, response: PartitionProduceResponse, error: BrokerError) -> None:
        self._refuse(response, error.code, error.message)
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            by_id = self._context.api_version >= TOPIC_IDS_SINCE
            self._name_leader(topic.topic_id if by_id else topic.name, response)
        if isinstance(error, InvalidRecords):
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
                for record in error.record_errors
            ]

    def _unless_fenced(self, error: BrokerError) -> BrokerError:
        """A leader whose session may have ended does not know what its successor took: it refuses nothing for good."""
        if self._context.node.replication is None or not self._context.node.is_fenced:
            return error
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The session of this broker may have ended.")

    def _stage(
        self, topic: TopicProduceData, index: int, records: memoryview | None, response: PartitionProduceResponse
    ) -> None:
        context = self._context
        node = context.node
        by_id = context.api_version >= TOPIC_IDS_SINCE
        access = context.connection.access
        if access.is_restricted:
            access.check_topic(AclOperation.WRITE, node.topics.name_of(topic.topic_id) if by_id else topic.name)
        if by_id:
            partition = node.topics.partition_by_id(topic.topic_id, index)
        else:
            partition = node.topics.partition(topic.name, index)
        if partition.is_internal and context.client_id != ADMIN_CLIENT_ID:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Only coordinators write to {partition.topic_name}.")
        if self.refusals and partition in self.refusals:
            raise self.refusals[partition]
        if self._acks == ACKS_ALL:
            partition.check_in_sync_replicas()
        append = partition.stage(records, context.api_version, self._now_ms, self.in_transaction)
        self.add(partition, append, response)

    def finish(self) -> None:
        """Every batch is acknowledged or refused: the answer can leave."""
        for partition, append, response in self.appends:
            if append.code:
                self._refuse(response, append.code, append.message)
                if append.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self._name_leader(partition.topic_id, response)
                continue
            response.base_offset = append.base_offset
            response.log_append_time_ms = append.log_append_time_ms
            response.log_start_offset = partition.log.log_start_offset
        if self._acks == ACKS_NONE:
            if self._error_text is not None:
                self._context.connection.hang_up(f"a produce with acks=0 failed: {self._error_text}")
            return
        answer = ProduceResponse(responses=self._topics)
        if self._leaders:
            answer.node_endpoints = [
                NodeEndpoint(node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack)
                for leader in self._leaders.values()
            ]
        self.complete(answer)

    def _name_leader(self, topic: str | bytes, response: PartitionProduceResponse) -> None:
        """From version 10 on; older versions do not write these fields."""
        leader = current_leader(self._context, topic, response.index)
        if leader is not None:
            response.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
            self._leaders = {**(self._leaders or {}), leader.leader_id: leader}

    def _refuse(self, response: PartitionProduceResponse, code: ErrorCode, message: str | None) -> None:
        response.error_code = code
        response.error_message = self._error_text = message
        response.base_offset = response.log_append_time_ms = response.log_start_offset = -1
        self._context.node.request_metrics.failed("Produce", code)
