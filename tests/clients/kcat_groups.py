"""kcat in a group (`kcat -G`) and in a transaction (`kcat -P -X transactional.id=...`): one process each.

What a member saw is read from what it printed: rebalances on standard error, records on standard output.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO, Final

from tests.clients.group_interface import (
    ASSIGNED,
    HEARTBEAT_INTERVAL_MS,
    LIBRDKAFKA_FENCED,
    REVOKED,
    SESSION_TIMEOUT_MS,
    GroupMember,
    Membership,
    MemberState,
    Received,
    TransactionalProducer,
)
from tests.clients.interface import REQUEST_TIMEOUT_S, RefusedError
from tests.clients.records import Record

_EAGER: Final = re.compile(
    r"^% Group \S+ rebalanced \(memberid \S+\): (?P<change>assigned|revoked): (?P<partitions>.*)$"
)
_INCREMENTAL: Final = re.compile(
    r"^% Group \S+ rebalanced: incremental (?P<change>assignment|revoke) of .* protocol\): (?P<partitions>.*)$"
)
_INPUT_BLOCK_BYTES: Final = 1024
_END_OF_RECORD: Final = b"\n"


def _whole_lines(file: IO[bytes]) -> list[str]:
    """What the running process has printed, less a last line that is not complete."""
    file.seek(0)
    return file.read().decode().rpartition("\n")[0].splitlines()


class KcatMember(GroupMember):
    """It commits by itself, every five seconds and when it ends, whatever is asked of librdkafka."""

    def __init__(self, command: Sequence[str], membership: Membership) -> None:
        self._topic = membership.topic
        settings = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
        }
        if membership.assignor is not None:
            settings["partition.assignment.strategy"] = membership.assignor
        if membership.instance_id is not None:
            settings["group.instance.id"] = membership.instance_id
        options = [option for name, value in settings.items() for option in ("-X", f"{name}={value}")]
        self._records = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the member)
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the member)
        self._process = subprocess.Popen(
            [*command, "-u", "-f", "%p %o %s\\n", *options, "-G", membership.group, membership.topic],
            stdin=subprocess.DEVNULL,
            stdout=self._records,
            stderr=self._messages,
        )

    def state(self) -> MemberState:
        printed = _whole_lines(self._messages)
        assert self._process.poll() is None, f"kcat ended: {printed}"
        state = MemberState()
        for line in printed:
            if (rebalance := _EAGER.match(line) or _INCREMENTAL.match(line)) is not None:
                kind = ASSIGNED if rebalance["change"].startswith("assign") else REVOKED
                state.rebalance(
                    kind, frozenset(int(each) for each in re.findall(r"\[(\d+)\]", rebalance["partitions"]))
                )
        for line in _whole_lines(self._records):
            partition, offset, value = line.split(" ", 2)
            state.received.append(Received(int(partition), int(offset), value.encode()))
        return state

    def commit(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(REQUEST_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._records.close()
            self._messages.close()


class KcatTransactionalProducer(TransactionalProducer):
    """One run of kcat is one transaction, into one partition: the end of its input commits, a signal aborts."""

    def __init__(self, command: Sequence[str], transactional_id: str) -> None:
        self._command = [*command, "-P", "-X", f"transactional.id={transactional_id}"]
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """The transaction begins with its first records, when topic and partition are known."""

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        assert self._process is None, "one run of kcat writes to one partition"
        lines = b"".join((record.value or b"") + _END_OF_RECORD for record in records)
        # kcat reads a block at a time, sends the lines that are whole, and a signal in the middle of one is an error.
        assert len(lines) % _INPUT_BLOCK_BYTES == 0
        self._process = subprocess.Popen(
            [*self._command, "-t", topic, "-p", str(partition)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdin is not None
        self._process.stdin.write(lines)
        self._process.stdin.flush()

    def send_offsets(self, member: GroupMember) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        assert b"Transaction successfully committed" in self._end()

    def abort(self) -> None:
        assert self._process is not None
        self._process.terminate()
        assert b"Aborting transaction due to termination signal" in self._end()

    def _end(self) -> bytes:
        process, self._process = self._process, None
        assert process is not None
        _, printed = process.communicate(timeout=REQUEST_TIMEOUT_S)
        if b"fenced by a newer instance" in printed:
            raise RefusedError(LIBRDKAFKA_FENCED, printed.decode())
        assert process.returncode == 0, printed.decode()
        return printed

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
