"""`penstock consume TOPIC`: writes records to stdout, with the options of kcat -C and kafka-console-consumer.sh.

Owns the options and the loop from librdkafka to stdout. `start_position.py` decides where partitions start,
`record_format.py` formats a record.

Invariants: stdout carries records and nothing else; with `--group`, an offset is committed only after its record was
written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.command_error import usage_error
from penstock.cli.connection import connected
from penstock.cli.options import BootstrapServer, ClientProperties, examples, one_topic, parse_delimiter, unescape
from penstock.cli.progress import RecordCounter
from penstock.cli.record_format import Writer, compile_format, write_json
from penstock.cli.start_position import Beginning, End, Range, parse_range, partitions_of, start_offsets
from penstock.client.admin import Admin
from penstock.client.errors import from_kafka_error
from penstock.core.errors import BrokerUnreachable, ClientError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

EPILOG: Final = (
    examples(
        "penstock consume orders --from-beginning -e             all records, then exit",
        "penstock consume orders                                 new records, until ctrl-C",
        "penstock consume orders -o -10 -e                       the last ten records of each partition",
        "penstock consume orders --group billing --from-beginning",
        "penstock consume orders --from-beginning -e -f '%p:%o %k %s\\n'",
        "penstock consume orders --from-beginning -e --json | jq .value",
        "penstock consume --topic orders --from-beginning --max-messages 10",
    )
    + "\n\n\b\nFormat (-f): %t topic, %p partition, %o offset, %k key, %K its length, %s value, %S its length,\n"
    "%R its length as 4 bytes, %T timestamp, %h headers, %% a percent; \\n \\r \\t \\0 \\\\ \\xHH.\n"
    "\n\n\b\nExit codes: 0 reached the count (-c) or the end (-e), 1 failure, 2 wrong usage,\n"
    "3 broker unreachable, 4 no such topic, partition or offset, 130 interrupted, 141 output closed."
)

_BATCH_RECORDS: Final = 500
_BATCH_WAIT_S: Final = 0.1
# How long a fetch at the end of a partition waits for new records. librdkafka's default of half a second suits a
# consumer that follows a topic, but delays `-e`.
_FETCH_WAIT_MS_BEFORE_EXIT: Final = 10
_FETCH_QUEUE_BACKOFF_MS: Final = 10
_GROUP_LOOK_S: Final = 0.5
_NOT_OF_ADMIN: Final = frozenset({"fetch.wait.max.ms", "group.protocol", "partition.assignment.strategy"})


def consume(
    *,
    name: Annotated[str | None, typer.Argument(metavar="TOPIC", show_default=False)] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="The same as the argument, for kafka-console-consumer.sh users."),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the earliest offset. Default: new records only.")
    ] = False,
    group: Annotated[
        str | None, typer.Option("-G", "--group", metavar="GROUP", help="Join this consumer group and commit offsets.")
    ] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--offset",
            metavar="OFFSET",
            help="beginning, end, OFFSET, -N from the end, s@MS from a timestamp, e@MS up to one.",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("-p", "--partition", min=0, metavar="N", help="Read this partition only; repeatable."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("-c", "--count", "--max-messages", min=1, metavar="N", help="Exit after this many records."),
    ] = None,
    exit_at_end: Annotated[bool, typer.Option("-e", "--exit", help="Exit at the end of every partition.")] = False,
    record_format: Annotated[
        str | None, typer.Option("-f", "--format", metavar="FORMAT", help="The output format of a record; see below.")
    ] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("-K", "--key-delimiter", metavar="DELIM", help="Write KEY DELIM VALUE.")
    ] = None,
    record_delimiter: Annotated[
        str, typer.Option("-D", "--delimiter", metavar="DELIM", help="Write this after each record.")
    ] = "\\n",
    show_null: Annotated[bool, typer.Option("-Z", "--null", help="Write NULL for null keys and values.")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: Annotated[bool, typer.Option("--json", "-J", help="Write one JSON object per line.")] = False,
) -> None:
    """Write records to stdout."""
    chosen = one_topic(name, topic)
    wanted = parse_range(offset or (), from_beginning=from_beginning)
    if group is not None:
        _refuse_positions_of_one_reader(wanted, partition, offset or ())
    write = _writer(record_format, key_delimiter, record_delimiter, as_json=as_json, null=b"NULL" if show_null else b"")
    with connected(bootstrap_server, client_properties) as configuration:
        if exit_at_end:
            configuration.setdefault("fetch.wait.max.ms", _FETCH_WAIT_MS_BEFORE_EXIT)
        reader = _Reader(chosen, configuration, group=group, wanted=wanted, exit_at_end=exit_at_end)
        try:
            reader.position(partition)
            reader.write_all(write, count=count)
        finally:
            reader.close()


def _refuse_positions_of_one_reader(wanted: Range, partition: list[int] | None, words: Sequence[str]) -> None:
    if partition:
        raise usage_error("-p with --group: the group assigns partitions to its members; use one of the two")
    if not isinstance(wanted.start, Beginning | End) or wanted.stop_timestamp_ms is not None:
        raise usage_error(
            f"-o {words[0]} with --group: only beginning and end are possible, and apply to a group without offsets"
        )


def _writer(
    record_format: str | None, key_delimiter: str | None, record_delimiter: str, *, as_json: bool, null: bytes
) -> Writer:
    if as_json:
        if record_format is not None:
            raise usage_error("-f with --json: use one of the two")
        return write_json
    if record_format is not None:
        return compile_format(record_format, null=null)
    value = compile_format("%s", null=null)
    ends_with = unescape(record_delimiter, "-D")
    if key_delimiter is None:
        return lambda record: value(record) + ends_with
    key = compile_format("%k", null=null)
    separator = parse_delimiter(key_delimiter, "-K")
    return lambda record: key(record) + separator + value(record) + ends_with


class _Reader:
    def __init__(
        self, topic: str, configuration: dict[str, Any], *, group: str | None, wanted: Range, exit_at_end: bool
    ) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._topic = topic
        self._group = group
        self._wanted = wanted
        self._exit_at_end = exit_at_end
        self._ends = exit_at_end or wanted.stop_timestamp_ms is not None
        self._connection_lost: ClientError | None = None
        self._unfinished: set[int] | None = None
        self._configuration = {name: value for name, value in configuration.items() if name not in _NOT_OF_ADMIN}
        self._next_look = 0.0
        strategy = str(configuration.get("partition.assignment.strategy", ""))
        self._cooperative = "cooperative" in strategy or configuration.get("group.protocol") == "consumer"
        settings = {
            # librdkafka requires a group id even without a group; without one, nothing is committed.
            "group.id": "penstock-consume" if group is None else group,
            "enable.auto.commit": group is not None,
            "auto.offset.reset": "earliest" if isinstance(wanted.start, Beginning) else "latest",
            # librdkafka's default pauses fetching for a second when its queue is full; the loop empties it faster.
            "fetch.queue.backoff.ms": _FETCH_QUEUE_BACKOFF_MS,
            **configuration,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "error_cb": self._on_error,
        }
        try:
            self._consumer: Any = Consumer(settings)
        except KafkaException as mistake:
            raise from_kafka_error(mistake.args[0], "the client's configuration") from mistake

    def position(self, partitions: Sequence[int] | None) -> None:
        """Assigns the chosen partitions, or all, at their start offsets; in a group, subscribes to the topic."""
        available = partitions_of(self._consumer, self._topic, partitions)
        if self._group is None:
            self._unfinished = set(available)
            self._consumer.assign(start_offsets(self._consumer, self._topic, available, self._wanted.start))
        else:
            self._consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def write_all(self, write: Writer, *, count: int | None) -> None:
        output = sys.stdout.buffer
        stop_timestamp_ms = self._wanted.stop_timestamp_ms
        with RecordCounter("read", visible=not sys.stdout.isatty()) as counter:
            while not (self._ends and self._unfinished == set() and self._is_settled()):
                room = _BATCH_RECORDS if count is None else min(_BATCH_RECORDS, count - counter.records)
                written = 0
                for message in self._consumer.consume(num_messages=room, timeout=_BATCH_WAIT_S):
                    if message.error() is not None:
                        self._on_event(message.error(), message.partition())
                        continue
                    if stop_timestamp_ms is not None and message.timestamp()[1] >= stop_timestamp_ms:
                        self._finish(message.partition())
                        continue
                    if self._exit_at_end and self._unfinished is not None:
                        # The record arrived after the end was reached, so the partition has a new end.
                        self._unfinished.add(message.partition())
                    written += output.write(write(message))
                    counter.add(1, len(message))
                    if self._group is not None:
                        self._consumer.store_offsets(message=message)
                if written:
                    output.flush()
                if counter.records == count:
                    return
                if self._connection_lost is not None:
                    raise BrokerUnreachable(str(self._connection_lost))

    def _is_settled(self) -> bool:
        """Whether the assignment is final. Partitions of a dead member follow when its session ends, one by one."""
        if self._group is None:
            return True
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + _GROUP_LOOK_S
        return Admin.from_librdkafka(self._configuration).describe_group(self._group).state == "Stable"

    def close(self) -> None:
        self._consumer.close()

    def _finish(self, partition: int) -> None:
        if self._unfinished is not None:
            self._unfinished.discard(partition)

    def _on_event(self, error: KafkaError, partition: int) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._PARTITION_EOF:
            stop_timestamp_ms = self._wanted.stop_timestamp_ms
            # Before that time, records in the range may still arrive.
            if self._exit_at_end or (stop_timestamp_ms is not None and time.time() * 1000 >= stop_timestamp_ms):
                self._finish(partition)
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            raise from_kafka_error(error, f"topic '{self._topic}'")

    def _on_assign(self, _consumer: Any, assigned: Sequence[Any]) -> None:
        added = {partition.partition for partition in assigned}
        self._unfinished = (self._unfinished or set()) | added if self._cooperative else added

    def _on_revoke(self, _consumer: Any, revoked: Sequence[Any]) -> None:
        removed = {partition.partition for partition in revoked}
        if self._cooperative:
            # The partitions that stay are read on.
            self._unfinished = None if self._unfinished is None else self._unfinished - removed
        else:
            # During a rebalance the assignment is unknown.
            self._unfinished = None

    def _on_error(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
            self._connection_lost = from_kafka_error(error, "the connection was lost")
