"""kcat: librdkafka (often an old one, as distributions carry it) behind a command line."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from tests.clients.group_interface import NO_NEWER_PROTOCOL, Membership
from tests.clients.interface import (
    CONSUME_TIMEOUT_S,
    READ_COMMITTED,
    REQUEST_TIMEOUT_S,
    ClientMissingError,
    KafkaClient,
)
from tests.clients.kcat_groups import KcatMember, KcatTransactionalProducer
from tests.clients.records import Headers, Record, StoredRecord

_NOT_ADMINISTERING: Final = "kcat lists topics and changes none"
_NO_GROUP_ADMINISTRATION: Final = "kcat joins groups and administers none"
_ONE_PARTITION: Final = "one run of kcat is one transaction, into one partition"
_END_OF_KEY: Final = b"<end of key>"
_END_OF_RECORD: Final = b"<end of record>"


class KcatClient(KafkaClient):
    name = "kcat"
    has_none: ClassVar[Mapping[str, str]] = {
        "produce timestamps": "no option sets a record's time",
        "produce 0-byte records without key": "it skips an empty line that has no key",
        "create topic": _NOT_ADMINISTERING,
        "create topic, refused": _NOT_ADMINISTERING,
        "add partitions": _NOT_ADMINISTERING,
        "describe configs": _NOT_ADMINISTERING,
        "alter configs": _NOT_ADMINISTERING,
        "incremental alter configs": _NOT_ADMINISTERING,
        "delete records": _NOT_ADMINISTERING,
        "delete topic": _NOT_ADMINISTERING,
        "describe log dirs": _NOT_ADMINISTERING,
        "list offsets, max timestamp": "no query for the largest timestamp",
        "group, commit and go on": "it commits by itself only",
        **NO_NEWER_PROTOCOL,
        "committed offsets": _NO_GROUP_ADMINISTRATION,
        "consumer lag": _NO_GROUP_ADMINISTRATION,
        "alter group offsets": _NO_GROUP_ADMINISTRATION,
        "list groups": _NO_GROUP_ADMINISTRATION,
        "describe group": _NO_GROUP_ADMINISTRATION,
        "delete group": _NO_GROUP_ADMINISTRATION,
        "transaction over partitions and topics": _ONE_PARTITION,
        "transaction with consumed offsets": _ONE_PARTITION,
        "list transactions": _NOT_ADMINISTERING,
        "describe transaction": _NOT_ADMINISTERING,
    }

    def __init__(self, bootstrap_servers: str) -> None:
        program = shutil.which("kcat")
        if program is None:
            raise ClientMissingError("kcat is not installed: apt-get install kcat")
        self._command = [program, "-b", bootstrap_servers]

    @property
    def version(self) -> str:
        shown = self._run(["-V"]).decode()
        kcat, librdkafka = re.findall(r"Version (\S+).*librdkafka (\S+)", shown)[0]
        return f"{kcat} (librdkafka {librdkafka})"

    def close(self) -> None:
        """Nothing outlives a call."""

    def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        compression: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        options = ["-P", "-t", topic, "-p", str(partition), "-z", compression, "-D", _END_OF_RECORD.decode()]
        options += ["-X", f"topic.acks={acks}", "-X", "message.max.bytes=1100000"]
        if idempotent:
            options += ["-X", "enable.idempotence=true"]
        # Headers and nulls are options of a whole run of kcat, so that records that agree in them go together.
        for shape_options, alike in itertools.groupby(records, _shape_options):
            lines = b"".join(
                (b"" if record.key is None else record.key + _END_OF_KEY) + (record.value or b"") + _END_OF_RECORD
                for record in alike
            )
            self._run([*options, *shape_options], stdin=lines)

    def consume(
        self,
        topic: str,
        partition: int,
        count: int,
        *,
        offset: int = 0,
        isolation: str = READ_COMMITTED,
        timeout_s: float = CONSUME_TIMEOUT_S,
    ) -> list[StoredRecord]:
        options = ["-C", "-q", "-u", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count)]
        options += ["-X", f"isolation.level={isolation}"]
        # Lengths stand before the bytes, so that keys and values may hold anything.
        command = [*self._command, *options, "-f", "%o %T %K %S\\n%k%s%h\\n"]
        try:
            printed = subprocess.run(command, capture_output=True, timeout=timeout_s, check=True).stdout
        except subprocess.TimeoutExpired as waiting:
            printed = waiting.stdout or b""
        return list(_parse(printed))

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        raise NotImplementedError

    def list_topics(self) -> set[str]:
        return {topic["topic"] for topic in self._metadata()["topics"]}

    def partition_count(self, topic: str) -> int:
        (described,) = self._metadata("-t", topic)["topics"]
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        raise NotImplementedError

    def describe_config(self, topic: str) -> dict[str, str | None]:
        raise NotImplementedError

    def alter_config(self, topic: str, name: str, value: str) -> None:
        raise NotImplementedError

    def alter_config_incrementally(self, topic: str, name: str, value: str) -> None:
        raise NotImplementedError

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        raise NotImplementedError

    def broker_ports(self) -> list[int]:
        return [int(broker["name"].rpartition(":")[2]) for broker in self._metadata()["brokers"]]

    def log_bytes(self, topic: str, partition: int) -> int:
        raise NotImplementedError

    def list_offset(self, topic: str, partition: int, at: int) -> int | None:
        printed = self._run(["-Q", "-t", f"{topic}:{partition}:{at}"]).decode()
        offset = int(re.findall(r"offset (-?\d+)", printed)[0])
        return None if offset < 0 else offset

    def join(self, membership: Membership) -> KcatMember:
        return KcatMember(self._command, membership)

    def transactional_producer(self, transactional_id: str) -> KcatTransactionalProducer:
        return KcatTransactionalProducer(self._command, transactional_id)

    def _metadata(self, *options: str) -> dict[str, list[dict[str, str]]]:
        metadata: dict[str, list[dict[str, str]]] = json.loads(self._run(["-L", "-J", *options]))
        return metadata

    def _run(self, options: Sequence[str], stdin: bytes = b"", timeout_s: float = REQUEST_TIMEOUT_S) -> bytes:
        done = subprocess.run([*self._command, *options], input=stdin, capture_output=True, timeout=timeout_s)
        assert done.returncode == 0, f"kcat {' '.join(options)} ended with {done.returncode}: {done.stderr.decode()}"
        return done.stdout


def _shape_options(record: Record) -> tuple[str, ...]:
    options = [] if record.key is None else ["-K", _END_OF_KEY.decode()]
    if record.value is None:
        options.append("-Z")
    for name, value in record.headers:
        options += ["-H", name if value is None else f"{name}={value.decode()}"]
    return tuple(options)


def _parse(printed: bytes) -> Iterator[StoredRecord]:
    position = 0

    def take(length: int) -> bytes | None:
        nonlocal position
        if length < 0:
            return None
        position += length
        return printed[position - length : position]

    def take_line() -> bytes:
        line = take(printed.index(b"\n", position) - position)
        take(1)
        assert line is not None
        return line

    while position < len(printed):
        offset, timestamp_ms, key_length, value_length = (int(number) for number in take_line().split())
        yield StoredRecord(offset, timestamp_ms, take(key_length), take(value_length), _headers(take_line().decode()))


def _headers(printed: str) -> Headers:
    if not printed:
        return ()
    pairs = (header.partition("=") for header in printed.split(","))
    return tuple((name, None if value == "NULL" else value.encode()) for name, _, value in pairs)
