"""A follower's side of an incremental fetch session (KIP-227): after the first request, only what changed is sent.

Must not know: connections, logs, what is done with the answers.

Invariant: a request and the session at the leader together always name exactly the partitions that are wanted now. A
partition that is not wanted for a while is forgotten: its errors would end every fetch at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.core.ids import TopicIdPartition
from penstock.protocol.definitions.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = (1 << 31) - 1


class FetchSessionClient:
    """One session at one leader. A failed fetch may or may not have been seen there, so that it ends the session."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._sent: dict[TopicIdPartition, FetchPartition] = {}

    @property
    def is_incremental(self) -> bool:
        return self._session_id != NO_SESSION

    def request(
        self,
        wanted: Mapping[TopicIdPartition, FetchPartition],
        replica: ReplicaState,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
    ) -> FetchRequest:
        """An unchanged partition is the same object as before."""
        changed = {key: partition for key, partition in wanted.items() if self._sent.get(key) is not partition}
        forgotten = [key for key in self._sent if key not in wanted]
        self._sent = dict(wanted)
        return FetchRequest(
            replica_state=replica,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=_topics(changed),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def answered(self, response: FetchResponse) -> None:
        """The leader has made the session, or carried it on; without one, each request names everything."""
        if response.session_id == NO_SESSION:
            self.reset()
            return
        if response.session_id != self._session_id:
            self._session_id = response.session_id
            self._epoch = _INITIAL_EPOCH
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """The next request begins a new session. The leader drops the old one when it is told of it, or in time."""
        self._sent = {}
        self._session_id = NO_SESSION
        self._epoch = _INITIAL_EPOCH


def _topics(partitions: Mapping[TopicIdPartition, FetchPartition]) -> list[FetchTopic]:
    topics: dict[bytes, FetchTopic] = {}
    for (topic_id, _), partition in partitions.items():
        topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[])).partitions.append(partition)
    return list(topics.values())


def _forgotten(keys: Iterable[TopicIdPartition]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
    return list(topics.values())
