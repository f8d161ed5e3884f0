"""Publishes the dead letters of the outbox to their topic, each exactly once.

Owns the Kafka transaction of that. A batch of letters and the id behind its last one, as the offset of the group
`<pipeline>.dead_letters`, are committed together; then the letters are removed from the outbox. A relay that dies in
between leaves letters whose ids are below that offset: the next one removes them and publishes what follows.

Invariants:
- Two relays of one pipeline cannot both publish a letter: they share a transactional id, the later one fences the
  earlier, and reads the offset only then.
- An id is valid only with the outbox that gave it. The offset's metadata names the outbox, so a new database, which
  counts from 1 again, is not mistaken for one whose letters are published.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pyarrow as pa

from penstock.core import dead_letters
from penstock.core.errors import ProducerFenced
from penstock.core.ids import OffsetAndMetadata, TopicPartition
from penstock.pipeline import crash_points
from penstock.pipeline.kernel_cache import use_kernel_cache
from penstock.pipeline.rows.dead_letters import FIELDS_BY_HEADER
from penstock.pipeline.sinks.table import outbox
from penstock.pipeline.sinks.table.connections import in_driver
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import TableRefused
from penstock.pipeline.sinks.table.ledger import Ledger
from penstock.pipeline.sinks.table.names import TableNames
from penstock.pipeline.sinks.table.outbox import WaitingLetter
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.wire.client import WireClient

_LETTERS_MAX: Final = 1_000
_OVERTAKEN_MAX: Final = 4
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def relay_at_start(target: TableTarget) -> int:
    """In the driver, after `claim`: what an earlier run has left. The number of letters that were published."""
    if target.dead_letters is None:
        return 0
    with in_driver(target) as database:
        return relay(target, database)


def relay(target: TableTarget, database: Database) -> int:
    """Publishes all that waits. The number of letters that were published. Raises Fenced in a run that is over."""
    for _ in range(_OVERTAKEN_MAX):
        try:
            return _relay(target, database)
        except ProducerFenced:
            # By the run that has taken over, or by what is left of an earlier one, which is then done with it.
            Ledger(target).read(database)
    return _relay(target, database)


def _relay(target: TableTarget, database: Database) -> int:
    if target.dead_letters is None:
        return 0
    names = TableNames(target)
    if not outbox.waiting(database, names, target.pipeline, 0, 1):
        return 0
    outbox_id = Ledger(target).read(database).outbox
    published = 0
    with WireClient(dict(target.kafka)) as client:
        publisher = _Publisher(client, target, outbox_id)
        next_id = publisher.next_id()
        while letters := outbox.waiting(database, names, target.pipeline, next_id, _LETTERS_MAX):
            next_id = letters[-1].id + 1
            publisher.publish(letters, next_id)
            crash_points.reached("table.dead_letters_published")
            published += len(letters)
        outbox.remove(database, names, target.pipeline, next_id)
    return published


class _Publisher:
    def __init__(self, client: WireClient, target: TableTarget, outbox_id: str) -> None:
        assert target.dead_letters is not None
        self._client = client
        self._pipeline = target.pipeline
        self._topic = target.dead_letters
        self._name = f"{target.pipeline}.dead_letters"  # the group and the transactional id
        self._outbox_id = outbox_id
        self._place = TopicPartition(self._topic, 0)
        found = client.metadata([self._topic], allow_auto_topic_creation=True).topics.get(self._topic)
        if found is None or not found.partitions:
            raise TableRefused(f"topic {self._topic} of the dead letters is not there; create it and start again")
        use_kernel_cache()
        from penstock.columns.encoding import ColumnEncoder
        from penstock.columns.partitioning import ColumnPartitioner

        self._encoder = ColumnEncoder(ColumnPartitioner(len(found.partitions)))
        self._producer = client.init_producer_id(self._name)

    def next_id(self) -> int:
        committed = self._client.offset_fetch(self._name, [self._place]).get(self._place)
        if committed is None or committed.metadata != self._metadata():
            return 0
        return committed.offset

    def publish(self, letters: list[WaitingLetter], next_id: int) -> None:
        sender = self._client.sender(producer=self._producer, transactional_id=self._name)
        for batch in self._encoder.encode(_records(letters, self._pipeline), int(time.time() * 1000)):
            sender.send(TopicPartition(self._topic, batch.partition), batch.content)
        sender.flush()
        offset = OffsetAndMetadata(next_id, self._metadata())
        self._client.txn_offset_commit(self._name, self._producer, self._name, {self._place: offset})
        crash_points.reached("table.dead_letters_sent")
        self._client.end_txn(self._name, self._producer, commit=True)
        # A fresh epoch, whatever the broker's version: sequences begin at 0 again.
        self._producer = self._client.init_producer_id(self._name)

    def _metadata(self) -> str:
        return json.dumps({"outbox": self._outbox_id})


def _records(letters: list[WaitingLetter], pipeline: str) -> Any:
    headers = [
        [
            *({"key": name, "value": _text(getattr(letter, field))} for name, field in FIELDS_BY_HEADER.items()),
            {"key": dead_letters.PIPELINE, "value": pipeline.encode()},
        ]
        for letter in letters
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([letter.key for letter in letters], pa.binary()),
            pa.array([letter.value for letter in letters], pa.binary()),
            pa.array(headers, _HEADERS),
        ],
        names=["key", "value", "headers"],
    )


def _text(value: object) -> bytes | None:
    return None if value is None else str(value).encode()
