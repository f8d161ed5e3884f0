"""A client of another language, in one process for the whole run, driven by a line of JSON for each call.

A request is {"call": name, ...arguments}. The answer is {"result": ...}, or {"error": text}, with the "code" of the
error where it is Kafka's. Keys, values and headers travel as base64. The programs are java/KafkaClientDriver.java and
kafkajs/driver.js. What outlives a call, members of groups and transactional producers, lives there under a number.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.clients.group_interface import (
    AUTO_COMMIT_INTERVAL_MS,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    GroupDescription,
    GroupMember,
    Membership,
    MemberState,
    Received,
    TransactionalProducer,
    TransactionDescription,
    state_name,
)
from tests.clients.interface import CONSUME_TIMEOUT_S, READ_COMMITTED, KafkaClient, RefusedError
from tests.clients.records import Record, StoredRecord


class JsonLinesClient(KafkaClient):
    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the client)
        self._version = str(self._call("version"))

    def _start(self) -> subprocess.Popen[str]:
        command, environment = self._program()
        return subprocess.Popen(
            [*command, self._bootstrap_servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
            encoding="utf-8",
        )

    def _program(self) -> tuple[list[str], dict[str, str]]:
        """The command without its last argument, the bootstrap servers, and its environment."""
        raise NotImplementedError

    @property
    def version(self) -> str:
        return self._version

    def close(self) -> None:
        self._end(within_s=10)
        self._errors.close()

    def _end(self, within_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()  # the driver ends when its input does
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

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
        self._call(
            "produce",
            topic=topic,
            partition=partition,
            records=[_to_json(record) for record in records],
            compression=compression,
            acks=acks,
            idempotent=idempotent,
        )

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
        found = self._call(
            "consume",
            topic=topic,
            partition=partition,
            count=count,
            offset=offset,
            isolation=isolation,
            timeout_ms=int(timeout_s * 1000),
        )
        return [_from_json(record) for record in found]

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        self._call("create_topic", topic=topic, partitions=partitions, config=dict(config))

    def list_topics(self) -> set[str]:
        return set(self._call("list_topics"))

    def partition_count(self, topic: str) -> int:
        return int(self._call("partition_count", topic=topic))

    def add_partitions(self, topic: str, total: int) -> None:
        self._call("add_partitions", topic=topic, total=total)

    def describe_config(self, topic: str) -> dict[str, str | None]:
        return dict(self._call("describe_config", topic=topic))

    def alter_config(self, topic: str, name: str, value: str) -> None:
        self._call("alter_config", topic=topic, name=name, value=value)

    def alter_config_incrementally(self, topic: str, name: str, value: str) -> None:
        self._call("alter_config_incrementally", topic=topic, name=name, value=value)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        self._call("delete_records", topic=topic, partition=partition, before_offset=before_offset)

    def delete_topic(self, topic: str) -> None:
        self._call("delete_topic", topic=topic)

    def broker_ports(self) -> list[int]:
        return list(self._call("broker_ports"))

    def log_bytes(self, topic: str, partition: int) -> int:
        return int(self._call("log_bytes", topic=topic, partition=partition))

    def list_offset(self, topic: str, partition: int, at: int) -> int | None:
        offset: int | None = self._call("list_offset", topic=topic, partition=partition, at=at)
        return offset

    def join(self, membership: Membership) -> GroupMember:
        member = self._call(
            "join",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            auto_commit_interval_ms=AUTO_COMMIT_INTERVAL_MS,
            **asdict(membership),
        )
        return _Member(self._call, member)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return dict(self._call("committed", group=group, topic=topic))

    def alter_committed(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._call("alter_committed", group=group, topic=topic, offsets=list(offsets.items()))

    def list_groups(self) -> set[str]:
        return set(self._call("list_groups"))

    def describe_group(self, group: str) -> GroupDescription:
        described = self._call("describe_group", group=group)
        return GroupDescription(state_name(described["state"]), [set(each) for each in described["assignments"]])

    def delete_group(self, group: str) -> None:
        self._call("delete_group", group=group)

    def transactional_producer(self, transactional_id: str) -> TransactionalProducer:
        return _TransactionalProducer(self._call, self._call("open_producer", transactional_id=transactional_id))

    def list_transactions(self) -> dict[str, str]:
        return dict(self._call("list_transactions"))

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        described = self._call("describe_transaction", transactional_id=transactional_id)
        return TransactionDescription(described["state"], {(topic, each) for topic, each in described["partitions"]})

    def _call(self, call: str, **arguments: Any) -> Any:
        answer = json.loads(self._exchange(json.dumps({"call": call, **arguments})))
        if "error" not in answer:
            return answer["result"]
        if answer.get("code") is not None:
            raise RefusedError(answer["code"], answer["error"])
        raise RuntimeError(f"{self.name}: {answer['error']}")

    def _exchange(self, request: str) -> str:
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer, f"{self.name} ended: {self._last_errors()}"
        except BaseException:
            # A test that ran out of time must not leave its answer for the next one to read: that one starts afresh.
            self._end(within_s=0)
            raise
        return answer

    def _last_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-4000:]


class _Member(GroupMember):
    """A consumer that lives in the driver, under a number."""

    def __init__(self, call: Callable[..., Any], number: int) -> None:
        self._call = call
        self.number = number
        self._closed = False

    def state(self) -> MemberState:
        seen = self._call("member_state", member=self.number)
        state = MemberState()
        for kind, partitions in seen["rebalances"]:
            state.rebalance(kind, frozenset(partitions))
        state.received = [
            Received(partition, int(offset), _decode(value)) for partition, offset, value in seen["received"]
        ]
        return state

    def to_commit(self) -> list[tuple[int, int]]:
        return list(self.state().next_offsets().items())

    def commit(self) -> None:
        self._call("member_commit", member=self.number, offsets=self.to_commit())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._call("member_close", member=self.number)


class _TransactionalProducer(TransactionalProducer):
    """A producer that lives in the driver, under a number."""

    def __init__(self, call: Callable[..., Any], number: int) -> None:
        self._call = call
        self._number = number

    def begin(self) -> None:
        self._call("producer_begin", producer=self._number)

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        sent = [_to_json(record) for record in records]
        self._call("producer_send", producer=self._number, topic=topic, partition=partition, records=sent)

    def send_offsets(self, member: GroupMember) -> None:
        assert isinstance(member, _Member)
        offsets = member.to_commit()
        self._call("producer_send_offsets", producer=self._number, member=member.number, offsets=offsets)

    def commit(self) -> None:
        self._call("producer_commit", producer=self._number)

    def abort(self) -> None:
        self._call("producer_abort", producer=self._number)

    def close(self) -> None:
        self._call("producer_close", producer=self._number)


def _to_json(record: Record) -> dict[str, Any]:
    return {
        "key": _encode(record.key),
        "value": _encode(record.value),
        "headers": [[name, _encode(value)] for name, value in record.headers],
        "timestamp_ms": record.timestamp_ms,
    }


def _from_json(record: dict[str, Any]) -> StoredRecord:
    return StoredRecord(
        int(record["offset"]),
        int(record["timestamp_ms"]),
        _decode(record["key"]),
        _decode(record["value"]),
        tuple((name, _decode(value)) for name, value in record["headers"]),
    )


def _encode(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
