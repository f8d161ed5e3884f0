"""A client that commits an offset again and again, and remembers the last one that was acknowledged.

An acknowledged commit may be followed by later ones, and never be undone: what a coordinator says after any fault is at
least that offset.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.robustness.transaction_copier import CLIENT_SETTINGS

GROUP: Final = "committing"
_PAUSE_S: Final = 0.02
_TIMEOUT_S: Final = 60.0


class Committer:
    """A context manager. It commits for a partition of its group that no member reads."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.acknowledged = -1
        self.count = 0
        self.problems: list[str] = []
        self._next = 0
        self._partition = TopicPartition(topic, 0)
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {**CLIENT_SETTINGS, "bootstrap.servers": bootstrap_servers, "group.id": GROUP, "enable.auto.commit": False}
        )
        self._thread = threading.Thread(target=self._run, name="committer")

    def __enter__(self) -> Committer:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def check(self) -> None:
        """After `stop`: asks the coordinator."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                (found,) = self._consumer.committed([self._partition], timeout=_TIMEOUT_S)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                continue
            break
        if not self.acknowledged <= found.offset <= self._next:
            self.problems.append(
                f"group {GROUP}: offset {found.offset} is committed; {self.acknowledged} was acknowledged last, and "
                f"{self._next} sent"
            )

    def _run(self) -> None:
        while not self._stopping.is_set():
            wanted = TopicPartition(self._partition.topic, 0, self._next + 1)
            self._next += 1
            with contextlib.suppress(KafkaException):
                self._consumer.commit(offsets=[wanted], asynchronous=False)
                self.acknowledged = wanted.offset
                self.count += 1
            time.sleep(_PAUSE_S)
