"""WriteTxnMarkers: a transaction coordinator on another broker, or an operator's tool, ends transactions here.

The coordinator of this broker writes its markers without asking itself. Replicas that do not confirm a marker in time
are REQUEST_TIMED_OUT; the marker may be repeated, and is written once more then. Each partition has a code of its own:
it may be unknown, know a later epoch (INVALID_PRODUCER_EPOCH) or a later coordinator (TRANSACTION_COORDINATOR_FENCED).

Versions: 1 to 2. From 2 on (KIP-1228) a marker says whether the epoch was bumped for it; one that carries the current
epoch all the same is a late one, and refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.broker.deferred import Deferred
from penstock.broker.request_context import RequestContext
from penstock.broker.transactions.markers import Failures, TransactionEnd, write_markers
from penstock.coordinator.transaction import ProtocolLevel
from penstock.core.acls import AclOperation
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.protocol.definitions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

TRANSACTION_VERSION_SINCE: Final = 2
# The coordinator asks again for markers that take longer. Those behind this request wait with it.
_REPLICAS_TIMEOUT_MS: Final = 5_000


def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse | Deferred:
    try:
        context.access.check_cluster(AclOperation.ALTER, AclOperation.CLUSTER_ACTION)
    except BrokerError as error:
        return WriteTxnMarkersResponse(
            markers=[_result(marker, _all_failed(marker, error)) for marker in request.markers]
        )
    answer = _PendingAnswer(request.markers)
    for number, marker in enumerate(request.markers):
        end = TransactionEnd(
            ProducerIdentity(marker.producer_id, marker.producer_epoch),
            marker.transaction_result,
            marker.coordinator_epoch,
            epoch_must_be_new=(
                context.api_version >= TRANSACTION_VERSION_SINCE
                and marker.transaction_version >= ProtocolLevel.EPOCH_PER_TRANSACTION
            ),
        )
        places = dict.fromkeys(
            TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes
        )
        write_markers(context.node, end, places, _report_to(answer, number), timeout_ms=_REPLICAS_TIMEOUT_MS)
    answer.complete_if_done()
    return answer


def _all_failed(marker: WritableTxnMarker, error: BrokerError) -> Failures:
    return {TopicPartition(topic.name, index): error for topic in marker.topics for index in topic.partition_indexes}


def _report_to(answer: _PendingAnswer, number: int) -> Callable[[Failures], None]:
    return lambda failures: answer.settle(number, failures)


class _PendingAnswer(Deferred):
    """Complete when every marker of the request is written or refused."""

    __slots__ = ("_all_asked", "_failures", "_markers")

    def __init__(self, markers: list[WritableTxnMarker]) -> None:
        super().__init__()
        self._markers = markers
        self._failures: dict[int, Failures] = {}
        self._all_asked = False

    def settle(self, number: int, failures: Failures) -> None:
        self._failures[number] = failures
        if self._all_asked:
            self.complete_if_done()

    def complete_if_done(self) -> None:
        self._all_asked = True
        if len(self._failures) == len(self._markers):
            results = [_result(marker, self._failures[number]) for number, marker in enumerate(self._markers)]
            self.complete(WriteTxnMarkersResponse(markers=results))


def _result(marker: WritableTxnMarker, failures: Failures) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=_code(failures, TopicPartition(topic.name, index))
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def _code(failures: Failures, place: TopicPartition) -> ErrorCode:
    failure = failures.get(place)
    return ErrorCode.NONE if failure is None else failure.code
