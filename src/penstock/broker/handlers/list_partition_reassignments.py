"""ListPartitionReassignments: the partitions whose replicas are moving to other brokers (KIP-455). Version: 0.

A node without peers moves no replicas, so the list is empty. Topics that do not exist are left out, as Kafka does.
"""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.error_codes import ErrorCode


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    if not context.access.may_with_cluster(AclOperation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.text)
    return ListPartitionReassignmentsResponse()
