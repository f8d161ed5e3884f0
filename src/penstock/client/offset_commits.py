"""Commits and fetches a group's offsets: the consumer's conversation with its group coordinator.

Owns retries, and the callbacks of asynchronous commits. It must never know how an offset was determined.

Invariant: a commit that returns is durable at the coordinator; one that raises CommitRefused changed nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.client.assignment import native
from penstock.client.errors import from_kafka_error
from penstock.core.errors import ClientError, CommitRefused
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

OnCommit = Callable[[Mapping[TopicPartition, int], ClientError | None], object]

_RETRY_S: Final = 0.02
_NOTHING_TO_COMMIT: Final = -168
_log = logging.getLogger("penstock.consumer")


class OffsetCommits:
    def __init__(self, group_id: str, *, timeout_s: float) -> None:
        self._subject = f"offsets of group '{group_id}'"
        self._timeout_s = timeout_s
        self._in_flight: list[tuple[dict[TopicPartition, int], OnCommit | None]] = []

    def require_membership(self, client: Any, *, subscribed: bool) -> None:
        """Raises CommitRefused unless the consumer is a member.

        After the group removed a member, librdkafka commits without a member id, and an empty group would accept it.
        """
        if subscribed and not client.memberid():
            raise CommitRefused(f"{self._subject}: this consumer is no longer a member of the group")

    def commit(self, client: Any, offsets: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                answers = client.commit(offsets=native(offsets), asynchronous=False)
                failed: KafkaError | None = next((each.error for each in answers if each.error is not None), None)
            except KafkaException as failure:
                failed = failure.args[0]
            if failed is None:
                return
            if not failed.retriable() or time.monotonic() > deadline:
                raise from_kafka_error(failed, self._subject)
            time.sleep(_RETRY_S)

    def commit_async(
        self,
        client: Any,
        offsets: Mapping[TopicPartition, int],
        on_commit: OnCommit | None,
        metadata: str | None = None,
    ) -> None:
        from confluent_kafka import KafkaException

        self._in_flight.append((dict(offsets), on_commit))
        try:
            client.commit(offsets=native(offsets, metadata), asynchronous=True)
        except KafkaException as failure:
            self._in_flight.pop()
            raise from_kafka_error(failure.args[0], self._subject) from failure

    def committed(self, client: Any, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        from confluent_kafka import KafkaException

        try:
            answers = client.committed(native(partitions), timeout=self._timeout_s)
        except KafkaException as failure:
            raise from_kafka_error(failure.args[0], self._subject) from failure
        found: dict[TopicPartition, int | None] = {}
        for answer in answers:
            partition = TopicPartition(answer.topic, answer.partition)
            if answer.error is not None:
                raise from_kafka_error(answer.error, str(partition))
            found[partition] = answer.offset if answer.offset >= 0 else None
        return found

    def on_answer(self, error: KafkaError | None, partitions: list[Any]) -> None:
        """librdkafka's callback for every commit, explicit or automatic; only the offsets identify the commit."""
        answered = {TopicPartition(each.topic, each.partition): each.offset for each in partitions}
        failed = error or next((each.error for each in partitions if each.error is not None), None)
        failure = None if failed is None else from_kafka_error(failed, self._subject)
        for number, (offsets, on_commit) in enumerate(self._in_flight):
            if offsets == answered:
                del self._in_flight[number]
                if on_commit is not None:
                    on_commit(offsets, failure)
                    return
                break
        if failed is not None and failed.code() != _NOTHING_TO_COMMIT:
            _log.warning("offsets were not committed: %s", failure)
