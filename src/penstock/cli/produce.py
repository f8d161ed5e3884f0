"""`penstock produce TOPIC`: sends records from stdin, with the options of kcat -P.

Owns the loop from stdin to librdkafka and the count of acknowledged records.

Invariant: exit code 0 means that every record of the input was acknowledged as `--acks` asks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.connection import connected
from penstock.cli.options import BootstrapServer, ClientProperties, examples, one_topic, parse_delimiter
from penstock.cli.progress import RecordCounter
from penstock.cli.record_input import RecordInput, split_stream
from penstock.client.errors import from_kafka_error
from penstock.core.errors import BrokerUnreachable, ClientError, UnknownTopic

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

EPILOG: Final = (
    examples(
        "seq 1000 | penstock produce numbers",
        "echo 'alice:hello' | penstock produce greetings -K :",
        "penstock produce events -z zstd -H source=batch --acks all < events.txt",
        "printf 'alice:' | penstock produce profiles -K : -Z          a tombstone: key alice, value null",
    )
    + "\n\n\b\nExit codes: 0 every record is acknowledged, 1 at least one record is not, 2 wrong usage,\n"
    "3 broker unreachable, 4 no such topic or partition, 130 interrupted."
)

_METADATA_TIMEOUT_S: Final = 10.0
_AUTO_CREATION_PATIENCE_S: Final = 5.0
_DEFAULT_MESSAGE_BYTES_MAX: Final = 1_000_000
_POLL_EVERY: Final = 1000


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"
    ALL_AS_NUMBER = "-1"


def produce(
    *,
    name: Annotated[str | None, typer.Argument(metavar="TOPIC", show_default=False)] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="The same as the argument, for kafka-console-producer.sh users."),
    ] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("-K", "--key-delimiter", metavar="DELIM", help="Split each line into KEY DELIM VALUE.")
    ] = None,
    key: Annotated[str | None, typer.Option("-k", "--key", help="The key of records without one.")] = None,
    record_delimiter: Annotated[
        str, typer.Option("-D", "--delimiter", metavar="DELIM", help="The delimiter between records.")
    ] = "\\n",
    header: Annotated[
        list[str] | None,
        typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header for every record; repeatable."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("-p", "--partition", min=0, metavar="N", help="The partition. Default: chosen by the key."),
    ] = None,
    compression: Annotated[
        Compression, typer.Option("-z", "--compression", help="The compression codec.")
    ] = Compression.NONE,
    null_for_empty: Annotated[bool, typer.Option("-Z", "--null", help="Send empty keys and values as null.")] = False,
    acks: Annotated[
        Acks, typer.Option("--acks", help="0: do not wait, 1: the leader has written it, all: all in-sync replicas.")
    ] = Acks.ALL,
    count: Annotated[
        int | None, typer.Option("-c", "--count", min=1, metavar="N", help="Exit after this many records.")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON at the end.")] = False,
) -> None:
    """Send records from stdin, one per line."""
    chosen = one_topic(name, topic)
    if sys.stdin is None:
        raise usage_error("stdin is closed; records are read from stdin")
    record_input = RecordInput(
        key_delimiter=None if key_delimiter is None else parse_delimiter(key_delimiter, "-K"),
        fixed_key=None if key is None else key.encode("utf-8", "surrogateescape"),
        empty_is_null=null_for_empty,
    )
    headers = _parse_headers(header or ())
    ends_with = parse_delimiter(record_delimiter, "-D")
    with connected(bootstrap_server, client_properties) as configuration:
        settings = {"acks": acks.value, "compression.type": compression.value, **configuration}
        pieces = split_stream(_read_stdin, ends_with, _message_bytes_max(settings))
        sender = _Sender(chosen, settings, partition=-1 if partition is None else partition, headers=headers)
        sender.require_topic()
        if sys.stdin.isatty() and sys.stderr.isatty():
            print("penstock: type one record per line; ctrl-D ends the input", file=sys.stderr)
        counter = sender.send_all(record_input, pieces, count)
    if as_json:
        print(json.dumps({"topic": chosen, "records": counter.records, "bytes": counter.bytes}))


def _parse_headers(words: Sequence[str]) -> list[tuple[str, bytes | None]]:
    """`name=value`; a name alone has the value null."""
    headers: list[tuple[str, bytes | None]] = []
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise usage_error(f"-H {word}: expected NAME=VALUE")
        headers.append((name, value.encode("utf-8", "surrogateescape") if equals else None))
    return headers


def _read_stdin(size: int) -> bytes:
    """At most `size` bytes, as soon as there are any: a typed line is sent at once."""
    return os.read(sys.stdin.fileno(), size)


def _message_bytes_max(settings: Mapping[str, Any]) -> int:
    given = str(settings.get("message.max.bytes", _DEFAULT_MESSAGE_BYTES_MAX))
    if not given.isdecimal():
        raise usage_error(f"-X message.max.bytes={given}: expected a number")
    return int(given)


class _Sender:
    def __init__(
        self, topic: str, settings: Mapping[str, Any], *, partition: int, headers: list[tuple[str, bytes | None]]
    ) -> None:
        from confluent_kafka import KafkaException, Producer

        self._topic = topic
        self._partition = partition
        self._headers = headers
        self._kafka_exception = KafkaException
        self._failed = 0
        self._first_failure: ClientError | None = None
        self._all_brokers_down: ClientError | None = None
        callbacks = {
            # Only failures are reported; every other record was acknowledged.
            "delivery.report.only.error": True,
            "on_delivery": self._on_failed_delivery,
            "error_cb": self._on_error,
        }
        try:
            self._producer: Any = Producer({**settings, **callbacks})
        except KafkaException as mistake:
            raise from_kafka_error(mistake.args[0], "the client's configuration") from mistake

    def require_topic(self) -> None:
        """Requests the topic's metadata, by which a broker with `auto.create.topics.enable` creates the topic."""
        from confluent_kafka import KafkaError

        deadline = time.monotonic() + _AUTO_CREATION_PATIENCE_S
        while True:
            try:
                metadata = self._producer.list_topics(self._topic, timeout=_METADATA_TIMEOUT_S).topics[self._topic]
            except self._kafka_exception as failure:
                raise from_kafka_error(failure.args[0], f"topic '{self._topic}'") from failure
            if metadata.error is None:
                break
            being_created = metadata.error.code() in (
                KafkaError.UNKNOWN_TOPIC_OR_PART,
                KafkaError.LEADER_NOT_AVAILABLE,
            )
            if not being_created:
                raise from_kafka_error(metadata.error, f"topic '{self._topic}'")
            if time.monotonic() > deadline:
                raise UnknownTopic(
                    f"topic '{self._topic}' does not exist and the broker does not create topics automatically; "
                    f"create it with `penstock topic create {self._topic}`"
                )
            time.sleep(0.1)
        if self._partition >= len(metadata.partitions):
            raise UnknownTopic(
                f"partition {self._partition} of topic '{self._topic}' does not exist; "
                f"the topic has {len(metadata.partitions)}, numbered from 0"
            )

    def send_all(self, record_input: RecordInput, pieces: Iterable[bytes], count: int | None) -> RecordCounter:
        interrupted = False
        with RecordCounter("sent", visible=not sys.stdin.isatty()) as counter:
            try:
                for piece in pieces:
                    self._send(*record_input.split(piece), number=counter.records + 1)
                    counter.add(1, len(piece))
                    if counter.records % _POLL_EVERY == 0:
                        self._producer.poll(0)
                        self._raise_if_down()
                    if counter.records == count:
                        break
            except KeyboardInterrupt:
                # Records that were read before are still sent.
                interrupted = True
            while self._producer.flush(0.2):
                self._raise_if_down()
        if self._first_failure is not None:
            raise type(self._first_failure)(
                f"{self._failed} of {counter.records} records were not acknowledged: {self._first_failure}"
            )
        if interrupted:
            raise KeyboardInterrupt
        return counter

    def _send(self, key: bytes | None, value: bytes | None, *, number: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value=value, key=key, partition=self._partition, headers=self._headers
                )
                return
            except BufferError:
                # The queue is full: the input is faster than the broker.
                self._producer.poll(0.1)
                self._raise_if_down()
            except self._kafka_exception as refusal:
                reason = from_kafka_error(refusal.args[0], f"record {number} of the input")
                raise CommandError(str(reason)) from refusal

    def _raise_if_down(self) -> None:
        if self._all_brokers_down is not None:
            raise BrokerUnreachable(f"{len(self._producer)} records are not acknowledged: {self._all_brokers_down}")

    def _on_failed_delivery(self, error: KafkaError, _message: Message) -> None:
        self._failed += 1
        if self._first_failure is None:
            self._first_failure = from_kafka_error(error, f"topic '{self._topic}'")

    def _on_error(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
            self._all_brokers_down = from_kafka_error(error, "the connection was lost")
