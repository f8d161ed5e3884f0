"""A worker that copies one topic to another, as a process that can be killed: librdkafka's consumer and producer.

Exactly once, every batch of records is a transaction with the consumer's offsets in it. At least once, the offsets are
committed after the batch. It reports each step on its stdout, in lines `time event transaction`, before or after it has
done it, and ends when its stdin does. Must never know when a fault comes.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.robustness.transaction_ledger import Event, copied_value, output_partition

EXACTLY_ONCE: Final = "exactly_once"
AT_LEAST_ONCE: Final = "at_least_once"
INPUT: Final = "input"
OUTPUT: Final = "output"
GROUP: Final = "copiers"
PROBLEM: Final = "problem"

# Found again soon, silent about it; nothing else differs from what librdkafka does by itself.
CLIENT_SETTINGS: Final[dict[str, str | int | float | bool]] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
    # When its only broker is gone, librdkafka begins anew with `bootstrap.servers` (KIP-899), and then 2.16 waits
    # forever for the group coordinator that it remembers (its issue 5511). So it is to keep the broker that it knows.
    "metadata.recovery.strategy": "none",
}
_RECORDS: Final = (400, 600)  # of a transaction
_COLLECT_S: Final = 0.5
_SLICE: Final = 100  # records that are sent and acknowledged before the next are sent
_PAUSE_S_MAX: Final = 0.04  # between two slices: a transaction stays open for a while
_ABORT_EVERY: Final = 10  # transactions, by the worker's own decision
_FIRST_ABORT: Final = 2
_STEP_TIMEOUT_S: Final = 30.0
_END_TIMEOUT_S: Final = 30.0


class Copier:
    def __init__(self, bootstrap_servers: str, name: str, incarnation: int, guarantee: str, static: bool) -> None:
        self._name = f"{name}.{incarnation}"
        self._chance = random.Random(self._name)
        self._transactions = guarantee == EXACTLY_ONCE
        self._count = 0
        self._collected: list[Message] = []
        self._stopping = threading.Event()
        common = {**CLIENT_SETTINGS, "bootstrap.servers": bootstrap_servers}
        transactional = {"transactional.id": name} if self._transactions else {"enable.idempotence": True}
        self._producer = Producer({**common, **transactional, "linger.ms": 2, "retry.backoff.ms": 20})
        self._consumer = Consumer(
            {
                **common,
                # A static member takes its place again at once; the partitions of another go to the one who is left.
                **({"group.instance.id": name} if static else {}),
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "max.poll.interval.ms": 60_000,
                "fetch.wait.max.ms": 50,
            }
        )

    def run(self) -> None:
        threading.Thread(target=self._await_end, daemon=True).start()
        if self._transactions:
            _insist(lambda: self._producer.init_transactions(_STEP_TIMEOUT_S))
        self._consumer.subscribe([INPUT], on_revoke=self._forget, on_lost=self._forget)
        while not self._stopping.is_set():
            batch = self._collect(self._chance.randrange(*_RECORDS))
            if batch and self._transactions:
                self._copy_in_transaction(batch)
            elif batch:
                self._copy(batch)
        self._consumer.close()

    def _await_end(self) -> None:
        sys.stdin.read()
        self._stopping.set()
        time.sleep(_END_TIMEOUT_S)
        os._exit(1)

    def _say(self, transaction: str, event: Event) -> None:
        # One write, at once: what was said is said, also when this process is killed right after it.
        os.write(1, f"{time.monotonic_ns()} {event} {transaction}\n".encode())

    def _forget(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        """What was read of partitions that went away will be read again by their next owner."""
        self._collected.clear()

    def _collect(self, count: int) -> list[Message]:
        deadline = time.monotonic() + _COLLECT_S
        while len(self._collected) < count and time.monotonic() < deadline and not self._stopping.is_set():
            messages = self._consumer.consume(count - len(self._collected), timeout=0.1)
            for message in messages:
                error = message.error()
                if error is None:
                    self._collected.append(message)
                elif error.fatal():
                    raise KafkaException(error)
        batch, self._collected = self._collected, []
        return [] if self._stopping.is_set() else batch

    def _copy_in_transaction(self, batch: list[Message]) -> None:
        transaction = self._next_transaction()
        self._say(transaction, Event.BEGUN)
        self._producer.begin_transaction()
        try:
            self._send(transaction, batch)
            if self._count % _ABORT_EVERY == _FIRST_ABORT:
                self._abort(transaction, batch)
                return
            offsets, group = _offsets_behind(batch), self._consumer.consumer_group_metadata()
            _insist(lambda: self._producer.send_offsets_to_transaction(offsets, group, _STEP_TIMEOUT_S))
            self._say(transaction, Event.COMMITTING)
            _insist(lambda: self._producer.commit_transaction(_STEP_TIMEOUT_S))
            self._say(transaction, Event.COMMITTED)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.txn_requires_abort():
                raise
            self._abort(transaction, batch)

    def _abort(self, transaction: str, batch: list[Message]) -> None:
        self._say(transaction, Event.ABORTING)
        _insist(lambda: self._producer.abort_transaction(_STEP_TIMEOUT_S))
        self._say(transaction, Event.ABORTED)
        for partition in _offsets_of(batch):
            try:
                self._consumer.seek(partition)
            except KafkaException:  # It has gone to somebody else; `_forget` is about to be called.
                continue

    def _copy(self, batch: list[Message]) -> None:
        transaction = self._next_transaction()
        self._say(transaction, Event.BEGUN)
        self._send(transaction, batch)
        self._say(transaction, Event.COMMITTING)
        try:
            self._consumer.commit(offsets=_offsets_behind(batch), asynchronous=False)
        except KafkaException:  # The next commit covers this one, or the next owner repeats it: at least once.
            return
        self._say(transaction, Event.COMMITTED)

    def _next_transaction(self) -> str:
        self._count += 1
        return f"{self._name}.{self._count}"

    def _send(self, transaction: str, batch: list[Message]) -> None:
        for index, message in enumerate(batch):
            source, number, value = int(message.partition() or 0), int(message.offset() or 0), message.value() or b""
            self._producer.produce(
                OUTPUT,
                copied_value(transaction, index, len(batch), value),
                partition=output_partition(source, number),
            )
            if (index + 1) % _SLICE == 0 or index + 1 == len(batch):
                self._producer.flush(_STEP_TIMEOUT_S)
                if index < _SLICE:
                    self._say(transaction, Event.WRITTEN)
                time.sleep(self._chance.random() * _PAUSE_S_MAX)


def _offsets_of(batch: list[Message]) -> list[TopicPartition]:
    """Where each partition of the batch begins in it."""
    first: dict[int, int] = {}
    for message in batch:
        first.setdefault(int(message.partition() or 0), int(message.offset() or 0))
    return [TopicPartition(INPUT, partition, offset) for partition, offset in first.items()]


def _offsets_behind(batch: list[Message]) -> list[TopicPartition]:
    last = {int(message.partition() or 0): int(message.offset() or 0) for message in batch}
    return [TopicPartition(INPUT, partition, offset + 1) for partition, offset in last.items()]


def _insist(step: Callable[[], object]) -> None:
    """A step that may be repeated is repeated: its outcome is not known before it has been confirmed."""
    while True:
        try:
            step()
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--guarantee", choices=[EXACTLY_ONCE, AT_LEAST_ONCE], required=True)
    parser.add_argument("--static", action="store_true")
    options = parser.parse_args()
    copier = Copier(
        options.bootstrap_servers, options.name, options.incarnation, options.guarantee, static=options.static
    )
    try:
        copier.run()
    except KafkaException as failure:
        os.write(1, f"{time.monotonic_ns()} {PROBLEM} {failure.args[0]}\n".encode())
        sys.exit(1)


if __name__ == "__main__":
    main()
