"""The messages of one poll: librdkafka's queue, without what a rebalance took away while it was read.

Owns the loop over single messages and the ends of partitions that librdkafka reports in between. It must never know
records, positions or commits.

Invariant: no returned message belongs to a partition that was revoked before `poll_messages` returned.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.client.assignment import Assignment
from penstock.client.end_of_log import EndOfLog
from penstock.client.record_reading import END_OF_PARTITION, error_of, partition_of
from penstock.core.errors import ClientError

if TYPE_CHECKING:
    from confluent_kafka import Message


def poll_messages(
    client: Any, assignment: Assignment, end_of_log: EndOfLog, limit: int, timeout_s: float
) -> tuple[list[Message], ClientError | None]:
    """Up to `limit` messages, and the error that ended the poll, if one did; waits for the first message only."""
    moved = assignment.moved
    moved.clear()
    messages: list[Message] = []
    wait_s, deadline = timeout_s, time.monotonic() + timeout_s
    while len(messages) < limit:
        # One at a time: a rebalance happens inside this call, and records fetched before it may be revoked.
        message = client.poll(wait_s)
        if moved:
            messages = [each for each in messages if partition_of(each) not in moved]
            moved.clear()
        if message is None:
            break
        error = message.error()
        if error is None:
            messages.append(message)
            wait_s = 0.0
        elif error.code() == END_OF_PARTITION:
            end_of_log.reported(partition_of(message), message.offset() or 0)
            wait_s = min(wait_s, max(0.0, deadline - time.monotonic()))
        elif (problem := error_of(message)) is not None:
            return messages, problem
    return messages, None
