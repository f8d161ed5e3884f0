"""ListPartitionReassignments: the partitions whose replicas are moving to other brokers (KIP-455). Version: 0.

A node without peers moves no replicas, so the list is empty. Topics that do not exist are left out, as Kafka does.
"""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.protocol.definitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()
