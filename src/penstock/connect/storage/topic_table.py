"""A compacted topic as a table that all workers of a cluster share: Kafka Connect's KafkaBasedLog.

Owns reading the topic from its beginning and following it, in a thread of its own, and writing to it. It must not know
what keys and values mean.

Invariants:
- Readers see committed records only, those of a partition in their order.
- A transaction fences every earlier one of the same transactional id before it reads the topic to its end. So whatever
  it decides upon cannot change before it commits: a later transaction aborts it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.connect.connector import ConnectError
from penstock.connect.storage.committed_records import committed_records
from penstock.connect.storage.json_values import KeyValue
from penstock.connect.storage.offset_records import partition_of_key
from penstock.connect.storage.table import OnRecords
from penstock.core.errors import ClientError, ProducerFenced, UnknownTopic
from penstock.core.ids import TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.wire.client import FetchOptions, TopicMetadata, WireClient

_log = logging.getLogger(__name__)

_FOLLOW_WAIT_MS: Final = 500
_FOLLOW_TIMEOUT_S: Final = 5.0  # then the topic counts as unreachable, until it is read again
_RETRY_PAUSE_S: Final = 0.5
_FENCED_PAUSE_S_MAX: Final = 0.05
_NEW_TOPIC_PAUSE_S: Final = 0.01
_READ_TO_END_TIMEOUT_S: Final = 30.0
_COMMITTED: Final = FetchOptions(max_wait_ms=0, isolation_level="read_committed")


@dataclass(frozen=True, slots=True)
class TableTopic:
    """`setting` is the worker's property that names the topic, for messages."""

    setting: str
    name: str
    partitions: int
    replication_factor: int = -1
    has_one_partition: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)


def prepare_topic(client: WireClient, topic: TableTopic) -> int:
    """Creates the topic if it is missing. Returns its number of partitions; raises ConnectError if it is unsuitable."""
    found = client.metadata([topic.name]).topics.get(topic.name)
    if found is None:
        configs = {**topic.configs, "cleanup.policy": "compact"}
        client.create_topic(
            topic.name, partitions=topic.partitions, replication_factor=topic.replication_factor, configs=configs
        )
        found = _await_topic(client, topic.name)
    policy = client.topic_config(topic.name, "cleanup.policy")
    if policy is not None and policy != "compact":
        raise ConnectError(
            f"topic '{topic.name}' ({topic.setting}) has cleanup.policy={policy}: a Connect cluster would lose what it "
            "keeps there; set cleanup.policy=compact on the topic, or name another topic"
        )
    if topic.has_one_partition and len(found.partitions) != 1:
        raise ConnectError(
            f"topic '{topic.name}' ({topic.setting}) has {len(found.partitions)} partitions: it needs exactly one, or "
            "workers read changes in different orders; name another topic"
        )
    return len(found.partitions)


def _await_topic(client: WireClient, name: str) -> TopicMetadata:
    """A new topic becomes known to all brokers with a delay."""
    deadline = time.monotonic() + _READ_TO_END_TIMEOUT_S
    while time.monotonic() < deadline:
        found = client.metadata([name]).topics.get(name)
        if found is not None:
            return found
        time.sleep(_NEW_TOPIC_PAUSE_S)
    raise UnknownTopic(f"topic '{name}' was created, and no broker knows it")


class TopicTable:
    """`settings` are those of the wire client. Transactions need a `transactional_id`."""

    def __init__(self, settings: Mapping[str, str], topic: TableTopic, *, transactional_id: str | None = None) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._transactional_id = transactional_id
        self._positions: dict[TopicPartition, int] = {}
        self._moved = threading.Condition()
        self._stopping = threading.Event()
        self._is_reachable = True
        self._thread: threading.Thread | None = None
        # A client is for one thread at a time: the follower has its own.
        self._client = WireClient(self._settings)
        self._client_lock = threading.RLock()

    @property
    def is_reachable(self) -> bool:
        return self._is_reachable

    @property
    def partition_count(self) -> int:
        return len(self._positions)

    def start(self, on_records: OnRecords) -> None:
        with self._client_lock:
            count = prepare_topic(self._client, self._topic)
        partitions = [TopicPartition(self._topic.name, index) for index in range(count)]
        earliest = self._client.list_offsets(dict.fromkeys(partitions, "earliest"))
        self._positions = {partition: earliest[partition].offset for partition in partitions}
        self._thread = threading.Thread(
            target=self._follow, args=(on_records,), name=f"follow {self._topic.name}", daemon=True
        )
        self._thread.start()
        self.read_to_end()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        with self._client_lock:
            self._client.close()

    def read_to_end(self) -> None:
        with self._client_lock:
            ends = self._client.list_offsets(dict.fromkeys(self._positions, "latest"), isolation_level="read_committed")
        self._wait_for({partition: end.offset for partition, end in ends.items()})

    def write(self, records: Sequence[KeyValue]) -> None:
        with self._client_lock:
            self._client.produce(
                {partition: encode_batch(group)[0] for partition, group in self._partitioned(records).items()}
            )

    def transact(self, decide: Callable[[], Sequence[KeyValue]]) -> None:
        """Serialises the transactions of all workers. A concurrent one that began later wins; this one tries again."""
        assert self._transactional_id is not None
        while True:
            with self._client_lock:
                try:
                    written = self._attempt(self._transactional_id, decide)
                except (ProducerFenced, BrokerError) as error:
                    # A commit that follows the abort by a newer producer is an invalid state (KIP-890).
                    if isinstance(error, BrokerError) and error.code != ErrorCode.INVALID_TXN_STATE:
                        raise
                    time.sleep(random.uniform(0, _FENCED_PAUSE_S_MAX))  # noqa: S311 (not a secret)
                    continue
            self._wait_for(written)
            return

    def _attempt(self, transactional_id: str, decide: Callable[[], Sequence[KeyValue]]) -> dict[TopicPartition, int]:
        """The offsets behind the records that were written."""
        producer = self._client.init_producer_id(transactional_id)
        self.read_to_end()
        groups = self._partitioned(decide())
        if not groups:
            return {}
        sender = self._client.sender(producer=producer, transactional_id=transactional_id)
        for partition, group in groups.items():
            sender.send(partition, encode_batch(group, transactional=True)[0])
        produced = sender.flush()
        self._client.end_txn(transactional_id, producer, commit=True)
        return {partition: produced[partition][-1].base_offset + len(group) for partition, group in groups.items()}

    def _partitioned(self, records: Sequence[KeyValue]) -> dict[TopicPartition, list[NewRecord]]:
        groups: dict[TopicPartition, list[NewRecord]] = {}
        now_ms = int(time.time() * 1000)
        for key, value in records:
            partition = TopicPartition(self._topic.name, partition_of_key(key, self.partition_count))
            groups.setdefault(partition, []).append(NewRecord(key, value, now_ms))
        return groups

    def _wait_for(self, ends: Mapping[TopicPartition, int]) -> None:
        def reached() -> bool:
            return all(self._positions[partition] >= end for partition, end in ends.items())

        with self._moved:
            if not self._moved.wait_for(reached, _READ_TO_END_TIMEOUT_S):
                raise ClientError(f"topic '{self._topic.name}' was not read to its end within 30 s: {ends}")

    def _follow(self, on_records: OnRecords) -> None:
        with WireClient(self._settings) as client, client.record_watch(isolation_level="read_committed") as watch:
            while not self._stopping.is_set():
                try:
                    self._read_available(client, on_records)
                except (BrokerError, ClientError) as error:
                    if self._is_reachable:
                        _log.warning("topic %s cannot be read, trying again: %s", self._topic.name, error)
                    self._is_reachable = False
                    self._stopping.wait(_RETRY_PAUSE_S)
                    continue
                if not self._is_reachable:
                    _log.info("topic %s is readable again", self._topic.name)
                self._is_reachable = True
                watch.wait(self._positions, _FOLLOW_WAIT_MS)

    def _read_available(self, client: WireClient, on_records: OnRecords) -> None:
        ends = client.list_offsets(
            dict.fromkeys(self._positions, "latest"), isolation_level="read_committed", timeout_s=_FOLLOW_TIMEOUT_S
        )
        for partition, end in ends.items():
            while self._positions[partition] < end.offset and not self._stopping.is_set():
                self._read(client, partition, on_records)

    def _read(self, client: WireClient, partition: TopicPartition, on_records: OnRecords) -> None:
        position = self._positions[partition]
        try:
            fetched = client.fetch(partition, position, _COMMITTED, timeout_s=_FOLLOW_TIMEOUT_S)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            # Records were deleted by hand. What is left is read from its beginning.
            self._move(partition, client.list_offsets({partition: "earliest"})[partition].offset)
            return
        records = [(record.key, record.value) for record in committed_records(fetched, position)]
        on_records([(key, value) for key, value in records if key is not None])
        self._move(partition, fetched.next_offset)

    def _move(self, partition: TopicPartition, position: int) -> None:
        with self._moved:
            self._positions[partition] = position
            self._moved.notify_all()
