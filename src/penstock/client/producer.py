"""The producer: sends records, each with a future for its metadata, and runs transactions.

A wrapper around confluent-kafka's producer. A background thread collects its delivery reports, so that futures complete
without polling. It must never know how a record's value was made.

Invariants: every record that `send` accepts completes its future with metadata or an error, and `close` returns when
all have completed. A transaction block ends committed, aborted, or with TransactionOutcomeUnknown.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.client.assignment import native
from penstock.client.errors import from_kafka_error
from penstock.client.partitioners import Hash, Partitioner
from penstock.client.records import RecordMetadata
from penstock.client.serializers import Format, Serializer, serializer
from penstock.client.settings import producer_settings
from penstock.client.topic_partitioning import TopicPartitioning
from penstock.core.errors import (
    BrokerUnreachable,
    BufferFull,
    ClientError,
    SerializationError,
    TransactionAborted,
    TransactionOutcomeUnknown,
)
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
OnDelivery = Callable[[RecordMetadata | None, ClientError | None], object]

_POLL_S: Final = 0.1
_ROOM_WAIT_S: Final = 0.01
_log = logging.getLogger("penstock.producer")


class Delivery(Future[RecordMetadata]):
    """A future for the metadata of a sent record. `result()` waits for it; in a coroutine, `await` does."""

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return asyncio.wrap_future(self).__await__()


class Producer:
    """`config` uses Kafka's setting names; `bootstrap.servers` is required. Thread-safe, except for transactions."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        key_serializer: Format | Serializer | None = None,
        value_serializer: Format | Serializer | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        import confluent_kafka

        settings = producer_settings(config)
        self._key_bytes = serializer(key_serializer)
        self._value_bytes = serializer(value_serializer)
        self._max_block_s: float = settings.values["max.block.ms"] / 1000
        self._transaction_timeout_s: float = settings.values["transaction.timeout.ms"] / 1000
        self._transactional = "transactional.id" in settings.values
        self._transactions_ready = False
        self._in_transaction = False
        self._closed = threading.Event()
        self._kafka_exception = confluent_kafka.KafkaException
        librdkafka = {"logger": _log, **settings.librdkafka, "partitioner": "murmur2_random"}
        self._client: Any = self._translated("the producer's configuration", confluent_kafka.Producer, librdkafka)
        self._partitioning: TopicPartitioning | None = None
        if partitioner is not None and not isinstance(partitioner, Hash):
            age_s = settings.values["metadata.max.age.ms"] / 1000
            self._partitioning = TopicPartitioning(self._client, partitioner, age_s=age_s, wait_s=self._max_block_s)
        self._reports = threading.Thread(
            target=self._collect_reports_until_closed, name="penstock-producer", daemon=True
        )
        self._reports.start()

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Queues a record and returns; blocks for up to `max.block.ms` while `buffer.memory` is full.

        Errors that are known immediately are raised; delivery errors are set on the future. `timestamp` is in
        milliseconds since the epoch. The producer's background thread calls `on_delivery` with the metadata or the
        error before the future completes.
        """
        key_bytes = _serialized(self._key_bytes, key, "key", topic)
        value_bytes = _serialized(self._value_bytes, value, "value", topic)
        if partition is None and self._partitioning is not None:
            partition = self._partitioning.partition_for(topic, key_bytes, value_bytes)
        return self.send_bytes(
            topic,
            value_bytes,
            key=key_bytes,
            headers=headers,
            timestamp=timestamp,
            partition=partition,
            on_delivery=on_delivery,
        )

    def send_bytes(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Like `send`, without the producer's serializers and partitioner: for records that are passed on unchanged."""
        delivery = Delivery()
        delivery.set_running_or_notify_cancel()
        self._produce(
            topic,
            value,
            key,
            -1 if partition is None else partition,
            on_delivery=functools.partial(_complete, delivery, on_delivery),
            timestamp=timestamp or 0,
            headers=_headers(headers),
        )
        return delivery

    def flush(self, timeout_s: float | None = None) -> None:
        """Waits until every sent record is delivered or has failed. Raises BrokerUnreachable after `timeout_s`."""
        unsent = self._translated("flushing", self._open_client().flush, -1 if timeout_s is None else timeout_s)
        if unsent:
            raise BrokerUnreachable(f"{unsent} records were not delivered within {timeout_s:g} s")

    def close(self, timeout_s: float | None = None) -> None:
        """Aborts an open transaction and delivers the queued records. Records left after `timeout_s` fail."""
        if self._closed.is_set():
            return
        try:
            if self._in_transaction:
                with suppress(ClientError):
                    self.abort_transaction()
            with suppress(self._kafka_exception):
                if self._client.flush(-1 if timeout_s is None else timeout_s):
                    self._client.purge()
                    self._client.flush(_POLL_S)
        finally:
            self._closed.set()
            self._reports.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def init_transactions(self, timeout_s: float | None = None) -> None:
        """Acquires the `transactional.id`: fences earlier producers of it and ends their open transaction.

        `transaction()` and `begin_transaction` call it the first time; call it yourself to choose the moment.
        """
        if not self._transactions_ready:
            self._resume("acquiring the transactional.id", self._open_client().init_transactions, timeout_s)
            self._transactions_ready = True

    def begin_transaction(self) -> None:
        self.init_transactions()
        self._translated("beginning a transaction", self._client.begin_transaction)
        self._in_transaction = True

    def commit_transaction(self, timeout_s: float | None = None) -> None:
        """Commits. If the broker refuses, aborts and raises TransactionAborted: the transaction may be repeated."""
        subject = "committing a transaction"
        try:
            self._resume(subject, self._open_client().commit_transaction, timeout_s)
        except TransactionAborted:
            self.abort_transaction()
            raise
        except BrokerUnreachable as failure:
            # The broker may have committed: this producer can no longer abort.
            self._in_transaction = False
            raise TransactionOutcomeUnknown(
                f"{failure}; close this producer; the next producer with its transactional.id completes the transaction"
            ) from failure
        self._in_transaction = False

    def abort_transaction(self, timeout_s: float | None = None) -> None:
        """Consumers with `isolation.level=read_committed` never read the records of the transaction."""
        self._in_transaction = False
        self._resume("aborting a transaction", self._open_client().abort_transaction, timeout_s)

    def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, int], group_metadata: Any) -> None:
        """Commits a consumer's offsets as part of the open transaction.

        `offsets` are those of the next records; `group_metadata` is the result of `Consumer.group_metadata()` at the
        time the records were read.
        """
        send = functools.partial(self._open_client().send_offsets_to_transaction, native(offsets), group_metadata)
        self._resume("adding offsets to a transaction", send, None)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """`with producer.transaction():` commits at the end of the block, and aborts if the block raises."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            self.abort_transaction()
            raise
        self.commit_transaction()

    def _produce(self, *record: Any, **options: Any) -> None:
        client = self._open_client()
        deadline: float | None = None
        while True:
            try:
                client.produce(*record, **options)
            except BufferError:
                now = time.monotonic()
                deadline = deadline if deadline is not None else now + self._max_block_s
                if now >= deadline:
                    waited = f"max.block.ms={self._max_block_s * 1000:g}"
                    raise BufferFull(
                        f"buffer.memory has been full for {waited}: records are sent faster than the broker accepts"
                    ) from None
                self._collect_reports(_ROOM_WAIT_S)
            except self._kafka_exception as failure:
                raise from_kafka_error(failure.args[0], _subject(record[0], record[3])) from failure
            else:
                return

    def _open_client(self) -> Any:
        if self._closed.is_set():
            raise ClientError("the producer is closed")
        return self._client

    def _collect_reports_until_closed(self) -> None:
        while not self._closed.is_set():
            self._collect_reports(_POLL_S)

    def _collect_reports(self, timeout_s: float) -> None:
        try:
            self._client.poll(timeout_s)
        except self._kafka_exception as failure:
            # A fatal error, such as fencing. The next send or commit raises it.
            _log.debug("the producer has failed permanently: %s", failure)

    def _resume(self, subject: str, call: Callable[[float], None], timeout_s: float | None) -> None:
        """librdkafka's transactional calls resume where they stopped when they are repeated after a timeout."""
        if not self._transactional:
            raise ClientError(f"{subject}: the producer has no transactional.id")
        limit_s = self._transaction_timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        while True:
            try:
                return call(max(0.0, deadline - time.monotonic()))
            except self._kafka_exception as failure:
                error: KafkaError = failure.args[0]
                if error.retriable() and time.monotonic() < deadline:
                    time.sleep(_ROOM_WAIT_S)
                    continue
                raise from_kafka_error(error, subject) from failure

    def _translated(self, subject: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self._kafka_exception as failure:
            raise from_kafka_error(failure.args[0], subject) from failure


def _complete(delivery: Delivery, on_delivery: OnDelivery | None, error: KafkaError | None, message: Message) -> None:
    """Runs in the thread that collects delivery reports, which must survive errors of the user's callback."""
    topic, partition, offset = str(message.topic()), message.partition(), message.offset()
    failure = metadata = None
    if error is not None:
        failure = from_kafka_error(error, _subject(topic, partition))
    else:
        assert partition is not None
        metadata = RecordMetadata(topic, partition, -1 if offset is None else offset, message.timestamp()[1])
    if on_delivery is not None:
        try:
            on_delivery(metadata, failure)
        except Exception:
            _log.exception("on_delivery of a record for topic '%s' raised", topic)
    if metadata is not None:
        delivery.set_result(metadata)
    else:
        delivery.set_exception(failure)


def _subject(topic: str, partition: int | None) -> str:
    return f"topic '{topic}'" if partition is None or partition < 0 else str(TopicPartition(topic, partition))


def _serialized(to_bytes: Serializer, value: Any, part: str, topic: str) -> bytes | None:
    if value is None:
        return None
    try:
        return to_bytes(value)
    except Exception as failure:
        raise SerializationError(f"the {part} of a record for topic '{topic}': {failure}") from failure


def _headers(headers: Headers | None) -> list[tuple[str, bytes | str | None]] | None:
    if headers is None:
        return None
    return list(headers.items() if isinstance(headers, Mapping) else headers)
