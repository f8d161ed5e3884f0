"""DeleteRecords: which topics it is for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.broker.handlers import delete_records
from penstock.broker.request_context import RequestContext
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, NewTopic
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.nodes import FakeConnection, make_topics, node_in


def test_records_that_a_policy_promises_to_keep_are_not_deleted(tmp_path: Path) -> None:
    policies = {"plain": "delete", "table": "compact", "both": "compact,delete", GROUP_OFFSETS_TOPIC: "delete"}

    async def main() -> None:
        with node_in(tmp_path, {"offsets.topic.replication.factor": "1"}) as node:
            make_topics(
                node,
                *(NewTopic(name, 1, 1, configs=[("cleanup.policy", policy)]) for name, policy in policies.items()),
            )
            everything = [DeleteRecordsPartition(partition_index=0, offset=-1)]
            topics = [DeleteRecordsTopic(name=name, partitions=everything) for name in policies]
            context = RequestContext(node, 2, "test", FakeConnection())
            response = delete_records.handle(DeleteRecordsRequest(topics=topics), context)
            assert {each.name: each.partitions[0].error_code for each in response.topics} == {
                "plain": ErrorCode.NONE,
                "table": ErrorCode.POLICY_VIOLATION,
                "both": ErrorCode.NONE,
                GROUP_OFFSETS_TOPIC: ErrorCode.INVALID_TOPIC_EXCEPTION,
            }

    asyncio.run(main())
