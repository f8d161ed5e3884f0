"""The consumer: reads records, tracks positions and commits offsets, as a group member or with assigned partitions.

A wrapper around confluent-kafka's consumer. Owns what the binding leaves to its callers: batches without records of
partitions that a rebalance revoked, automatic commits of processed rather than fetched records, and errors that name
the partition. Delivery guarantees are in `delivery/`.

Invariants: `poll` never returns a record of a partition that was revoked before it returned. The automatic commit never
covers a record that `poll` did not return. Like Kafka's own consumer it is not thread-safe; only `stop` is.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.client.assignment import Assignment, OnPartitions, StartingOffsets, native, seek_with_retries
from penstock.client.end_of_log import EndOfLog
from penstock.client.errors import translated
from penstock.client.message_polling import poll_messages
from penstock.client.offset_commits import OffsetCommits, OnCommit
from penstock.client.record_reading import RecordReader, no_offset
from penstock.client.records import Record, next_offsets
from penstock.client.serializers import Deserializer, Format, deserializer
from penstock.client.settings import connection_config, consumer_settings, is_cooperative
from penstock.core.errors import ClientError, InvalidClientSetting, NoOffset
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin import IsolationLevel
    from penstock.client.delivery.dead_letters import OnError
    from penstock.client.delivery.error_handling import ErrorHandling
    from penstock.client.delivery.loop import Handler, Store
    from penstock.core.guarantee import Guarantee

_DEFAULT_POLL_S: Final = 1.0
_STOP_CHECK_S: Final = 0.1
_log = logging.getLogger("penstock.consumer")


class Consumer:
    """`config` uses Kafka's setting names. `bootstrap.servers` is required; `group.id` to subscribe or commit."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        key_deserializer: Format | Deserializer | None = None,
        value_deserializer: Format | Deserializer | None = None,
    ) -> None:
        self._settings = consumer_settings(config)
        self._isolation_level: IsolationLevel = self._settings.values["isolation.level"]
        self.api_timeout_s: float = self._settings.values["default.api.timeout.ms"] / 1000
        self._auto_commit = self._settings.values["enable.auto.commit"] and "group.id" in self._settings.given
        self._reader = RecordReader(deserializer(key_deserializer), deserializer(value_deserializer))
        self._assignment = Assignment(cooperative=is_cooperative(self._settings))
        self._commits = OffsetCommits(self._settings.values.get("group.id", ""), timeout_s=self.api_timeout_s)
        self._end_of_log = EndOfLog(self.connection_config(), timeout_s=self.api_timeout_s)
        self._paused: set[TopicPartition] = set()
        self._topics: list[str] = []
        self._positions: dict[TopicPartition, int] = {}
        self._returned: list[Record] = []
        self._without_offset: set[TopicPartition] = set()
        self._postponed: ClientError | None = None
        self._stopping = threading.Event()
        self._lazy_client: Any = None
        self._closed = False

    def connection_config(self) -> dict[str, Any]:
        """The settings of this consumer that concern its connections, for another client."""
        return connection_config(self._settings)

    @property
    def group_id(self) -> str:
        group_id: str | None = self._settings.values.get("group.id")
        if not group_id:
            raise InvalidClientSetting("group.id is missing: subscribing and committing require a consumer group")
        return group_id

    def subscribe(
        self,
        topics: str | Iterable[str],
        *,
        on_assign: OnPartitions | None = None,
        on_revoke: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Reads these topics as a member of the group. A name that begins with `^` is a regular expression.

        `poll` calls the callbacks with a list of TopicPartition. `on_assign` may `seek`, and `on_revoke` may `commit`.
        `on_lost` (by default `on_revoke`) is called when the partitions may already belong to another member.
        """
        self._open()
        _ = self.group_id
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._assignment.on_assign = on_assign
        self._assignment.on_revoke = on_revoke
        self._assignment.on_lost = on_revoke if on_lost is None else on_lost
        if self._lazy_client is not None:
            self._subscribe(self._lazy_client)

    def unsubscribe(self) -> None:
        self._topics = []
        if self._lazy_client is not None:
            self._lazy_client.unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Reads these partitions, independently of any group; a mapping also sets the starting offsets."""
        if self._topics:
            raise ClientError("the consumer is subscribed: unsubscribe before you assign partitions")
        self._count_as_read()
        client = self._client()
        translated("assigning partitions", lambda: self._assignment.assign(client, partitions))
        self._positions = dict(partitions) if isinstance(partitions, Mapping) else {}
        self._end_of_log.forget([TopicPartition(*each) for each in partitions])

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._assignment.partitions)

    def poll(self, timeout_s: float = _DEFAULT_POLL_S, *, max_records: int | None = None) -> list[Record]:
        """Returns up to `max.poll.records` available records; waits up to `timeout_s` for the first one."""
        self._count_as_read()
        limit = self._settings.values["max.poll.records"] if max_records is None else max_records
        records = [] if self._postponed is not None else self._fetched(limit, timeout_s)
        if not records and self._postponed is not None:
            problem, self._postponed = self._postponed, None
            if isinstance(problem, NoOffset):
                self._without_offset.add(TopicPartition(problem.topic, problem.partition))
            raise problem
        self._returned = records
        self._positions.update(next_offsets(records))
        return records

    def __iter__(self) -> Iterator[Record]:
        """Record by record, until `stop` is called."""
        while not self._stopping.is_set():
            yield from self.poll(_STOP_CHECK_S, max_records=1)
        self._stopping.clear()

    def stop(self) -> None:
        """Ends `run` after the current batch, or ends an iteration; if none is active, the next one.

        Safe to call from any thread and from signal handlers.
        """
        self._stopping.set()

    def stopping(self) -> bool:
        return self._stopping.is_set()

    def settled(self) -> bool:
        """Whether the consumer has an assignment, which may be empty: from the group, or by `assign`."""
        return self._assignment.settled

    def has_joined(self) -> bool:
        """Whether the group's coordinator knows this consumer as a member."""
        return bool(self._client().memberid())

    @property
    def rebalance_timeout_s(self) -> float:
        """How long the other members may delay an assignment: a dead one by its session, a slow one by its handler."""
        values = self._settings.values
        return float(max(values["max.poll.interval.ms"], values.get("session.timeout.ms", 0))) / 1000

    def caught_up(self) -> bool:
        """Whether the brokers confirm that every assigned partition, unless paused, has been read to its end.

        Raises ClientError if they do not answer, and UnknownTopic if the consumer subscribed to a topic that does not
        exist.
        """
        if self._assignment.partitions or not self._topics:
            unpaused = self._assignment.partitions - self._paused
            return self._end_of_log.is_reached(unpaused, self._positions, self._isolation_level)
        self.require_topics()
        return self._end_of_log.is_someone_elses(self.group_id)

    def require_topics(self) -> None:
        """Raises UnknownTopic if the consumer subscribed to a topic that does not exist."""
        self._end_of_log.require_topics(self._topics)

    def run(
        self,
        handler: Handler,
        *,
        guarantee: Guarantee,
        store: Store | None = None,
        batch: bool = False,
        stop_when_idle_s: float | None = None,
        on_error: OnError | None = None,
        on_handler_error: OnError | None = None,
    ) -> int:
        """Calls the handler with every record and commits progress according to the guarantee; see docs/clients.md.

        The handler receives a record, or a list of records with `batch=True`; under `exactly_once` also the open
        transaction of the store. `on_error` decides about records that cannot be deserialized, `on_handler_error` about
        those whose handler raises: 'stop', 'drop' or {'dead_letters': TOPIC}. Returns the number of processed records
        after `stop`, or when no record arrived for `stop_when_idle_s` and none is left.
        """
        from penstock.client.delivery.loop import run

        try:
            return run(
                self,
                handler,
                guarantee,
                store,
                batch=batch,
                stop_when_idle_s=stop_when_idle_s,
                on_error=on_error,
                on_handler_error=on_handler_error,
            )
        finally:
            self._stopping.clear()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Sets the position of the partition: the next `poll` reads from this offset."""
        self._returned = [record for record in self._returned if record.topic_partition != partition]
        if not self._assignment.note_seek(partition, offset):
            if partition not in self._assignment.partitions:
                raise ClientError(f"cannot seek in {partition}: it is not assigned to this consumer")
            self._seek_now(partition, offset)
        self._positions[partition] = offset
        self._without_offset.discard(partition)
        self._end_of_log.forget([partition])

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seeks in the partitions that are still assigned; the others start from the group's committed offset."""
        for partition, offset in offsets.items():
            if partition in self._assignment.partitions:
                self.seek(partition, offset)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` returns."""
        if partition in self._positions:
            return self._positions[partition]
        committed = self.committed([partition])[partition] if "group.id" in self._settings.given else None
        if committed is not None:
            return committed
        reset = self._settings.values["auto.offset.reset"]
        if reset == "none":
            raise no_offset(partition)
        return self.beginning_offset(partition) if reset == "earliest" else self.end_offset(partition)

    def beginning_offset(self, partition: TopicPartition) -> int:
        return self._watermarks(partition)[0]

    def end_offset(self, partition: TopicPartition) -> int:
        """The high watermark; under `read_committed`, the last stable offset."""
        return self._watermarks(partition)[1]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stops returning records of these partitions until `resume`; membership and positions are kept."""
        chosen = list(partitions)
        translated("pausing", functools.partial(self._client().pause, native(chosen)))
        self._paused.update(chosen)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = list(partitions)
        translated("resuming", functools.partial(self._client().resume, native(chosen)))
        self._paused.difference_update(chosen)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commits the positions after the last `poll`, or these offsets (of the next records), and waits.

        Raises CommitRefused if the group has rebalanced and the partitions may belong to another member.
        """
        wanted = self._to_commit(offsets)
        if wanted:
            self._commits.require_membership(self._client(), subscribed=bool(self._topics))
            self._commits.commit(self._client(), wanted)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        *,
        on_commit: OnCommit | None = None,
        metadata: str | None = None,
    ) -> None:
        """Like `commit`, without waiting: a later `poll` calls `on_commit` with the offsets and the error or None.

        `metadata` is a text that the broker keeps with each offset.
        """
        wanted = self._to_commit(offsets)
        if wanted:
            self._commits.require_membership(self._client(), subscribed=bool(self._topics))
            self._commits.commit_async(self._client(), wanted, on_commit, metadata)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The group's committed offsets; None for partitions without one."""
        _ = self.group_id
        return self._commits.committed(self._client(), partitions)

    def group_metadata(self) -> Any:
        """The group membership, for `Producer.send_offsets_to_transaction`."""
        self._commits.require_membership(self._client(), subscribed=bool(self._topics))
        return self._client().consumer_group_metadata()

    def close(self) -> None:
        """Leaves the group; with `enable.auto.commit`, commits the offsets of the returned records first."""
        if self._closed:
            return
        self._count_as_read()
        client, self._lazy_client, self._closed = self._lazy_client, None, True
        self._end_of_log.close()
        if client is not None:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            # It is unknown which of the returned records were processed: they are read again.
            self._returned = []
        self.close()

    def begin_run(self, starting_offsets: StartingOffsets | None, errors: ErrorHandling, *, exactly_once: bool) -> None:
        """Hands progress over to `delivery/`; its starting offsets also apply to partitions that are assigned."""
        if not self._topics and not self._assignment.settled:
            raise ClientError("nothing to read: subscribe to topics or assign partitions before `run`")
        if exactly_once and self._isolation_level != "read_committed":
            if "isolation.level" in self._settings.given or self._lazy_client is not None:
                raise InvalidClientSetting(
                    "exactly_once requires isolation.level=read_committed: aborted records must not be read"
                )
            self._isolation_level = "read_committed"
        self._auto_commit = False
        self._returned = []
        self._reader.keeps_undecodable = errors.keeps_undecodable
        self._reader.keeps_bytes = errors.keeps_bytes
        self._assignment.starting_offsets = starting_offsets
        if starting_offsets is not None and self._assignment.partitions:
            self.rewind(starting_offsets(sorted(self._assignment.partitions)))

    def end_run(self) -> None:
        self._assignment.starting_offsets = None
        self._reader.keeps_undecodable = self._reader.keeps_bytes = False

    def _open(self) -> None:
        if self._closed:
            raise ClientError("the consumer is closed")

    def _client(self) -> Any:
        """Created on first use, because `run` may still change the isolation level."""
        self._open()
        if self._lazy_client is None:
            from confluent_kafka import Consumer as Native

            librdkafka = {
                "group.id": "penstock-consumer",  # librdkafka requires one even without a group
                "logger": _log,
                **self._settings.librdkafka,
                "isolation.level": self._isolation_level,
                "enable.auto.commit": self._auto_commit,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "on_commit": self._commits.on_answer,
            }
            client = translated("the consumer's configuration", lambda: Native(librdkafka))
            if self._topics:
                self._subscribe(client)
            self._lazy_client = client
        return self._lazy_client

    def _subscribe(self, client: Any) -> None:
        callbacks = {
            "on_assign": self._on_assign,
            "on_revoke": self._assignment.revoked,
            "on_lost": self._assignment.lost,
        }
        translated(f"subscribing to {', '.join(self._topics)}", lambda: client.subscribe(self._topics, **callbacks))

    def _on_assign(self, client: Any, partitions: list[Any]) -> None:
        # The group, a store or a seek in the user's callback decides where they start.
        for each in partitions:
            partition = TopicPartition(each.topic, each.partition)
            self._positions.pop(partition, None)
            self._end_of_log.forget([partition])
        self._assignment.assigned(client, partitions)

    def _fetched(self, limit: int, timeout_s: float) -> list[Record]:
        client = self._client()
        messages, self._postponed = translated(
            "reading", lambda: poll_messages(client, self._assignment, self._end_of_log, limit, timeout_s)
        )
        records, failures = self._reader.read_all(messages)
        for failure in failures:
            # The position stays before this record. The rest of the batch is returned.
            self._postponed = failure
            self._seek_now(TopicPartition(failure.topic, failure.partition), failure.offset)
        return records

    def _count_as_read(self) -> None:
        """The caller polls again, so it has processed the records of the last poll: they may be committed."""
        records, self._returned = self._returned, []
        if self._auto_commit and records and self._lazy_client is not None:
            offsets = {
                partition: offset
                for partition, offset in next_offsets(records).items()
                if partition in self._assignment.partitions
            }
            self._lazy_client.store_offsets(offsets=native(offsets))

    def _to_commit(self, offsets: Mapping[TopicPartition, int] | None) -> dict[TopicPartition, int]:
        _ = self.group_id
        if offsets is not None:
            return dict(offsets)
        return {each: offset for each, offset in self._positions.items() if each in self._assignment.partitions}

    def _seek_now(self, partition: TopicPartition, offset: int) -> None:
        client = self._client()
        if partition in self._without_offset:
            # librdkafka has stopped fetching it until it is assigned again.
            move = functools.partial(self._assignment.restart, client, partition, offset, self._positions)
        else:
            move = functools.partial(seek_with_retries, client, partition, offset)
        translated(f"seeking in {partition}", move)

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        (asked,) = native([partition])
        ask = functools.partial(self._client().get_watermark_offsets, asked, timeout=self.api_timeout_s)
        first, end = translated(str(partition), ask)
        return first, end
