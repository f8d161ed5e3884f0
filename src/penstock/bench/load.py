"""The librdkafka client that loads a broker, in its own process, so that its CPU time can be measured separately.

Owns the six loops (produce, sustained, paced, transactions, consume, one at a time) and their clocks. Both brokers get
this client with librdkafka's defaults; a `Load` names the few settings that a measurement changes. It must not know
which broker it connects to.

Invariants: every loop ends at its count or at its deadline; an unacknowledged or missing record is a failure, never a
figure.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.bench.client_process import START_ALLOWANCE_S, run_client
from penstock.bench.measurement import MeasurementError
from penstock.bench.process_usage import cpu_seconds

Kind = Literal["produce", "sustained", "paced", "transactions", "consume", "one_at_a_time"]

# `produce_batch` passes a list to librdkafka in one call; a call per record would cost the client more than the record
# costs the broker.
_CHUNK_RECORDS: Final = 10_000
_QUEUE_RECORDS: Final = 100_000  # librdkafka's default queue.buffering.max.messages
_PARTITION: Final = 0


@dataclass(frozen=True, slots=True)
class Load:
    """The work of one client process. `warm_up_count` applies to one_at_a_time only; `key_count` to produce only, whose
    records have no keys if it is 0, else as many different ones, in turn; `records_per_transaction` to transactions
    only, and divides `record_count`; `warm_up_s` and `measured_s` to sustained and paced, in place of `record_count`;
    `records_per_second` to paced only. `other_pids` are further processes whose CPU time counts as the broker's."""

    kind: Kind
    bootstrap_servers: str
    broker_pid: int
    topic: str
    record_bytes: int
    record_count: int
    time_limit_s: float
    client_config: dict[str, str | int | bool] = field(default_factory=dict)
    warm_up_count: int = 0
    records_per_transaction: int = 0
    key_count: int = 0
    warm_up_s: float = 0.0
    measured_s: float = 0.0
    records_per_second: int = 0
    other_pids: list[int] = field(default_factory=list)

    def run(self) -> LoadResult:
        """Runs the client process until it exits."""
        result = run_client("penstock.bench.load", dataclasses.asdict(self), self.time_limit_s, self._description)
        return LoadResult(**result)

    @property
    def _description(self) -> str:
        return f"{self.kind} of {self.record_count:,} records of {self.record_bytes} B ({self.topic})"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The client process's figures between the start and the stop of its clock."""

    record_count: int
    record_bytes: int
    seconds: float
    client_cpu_s: float
    broker_cpu_s: float
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def records_per_second(self) -> float:
        return self.record_count / self.seconds

    @property
    def broker_cpu_s_per_gb(self) -> float:
        """GB are 10^9 bytes of record values."""
        return self.broker_cpu_s / (self.record_count * self.record_bytes / 1e9)


class _Stopwatch:
    """Wall time, and the CPU time of broker and client, from its creation to `stop`."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._broker_cpu_s = _broker_cpu_seconds(load)
        self._client_cpu_s = _own_cpu_seconds()
        self._started_s = time.perf_counter()

    def restart_wall_clock(self) -> None:
        self._started_s = time.perf_counter()

    def stop(self, timed_count: int, whole_count: int, latencies_ms: list[float] | None = None) -> LoadResult:
        """The wall clock covers `timed_count` records. The CPU clocks may cover a few more, `whole_count`; their share
        is subtracted."""
        seconds = time.perf_counter() - self._started_s
        share = timed_count / whole_count
        return LoadResult(
            record_count=timed_count,
            record_bytes=self._load.record_bytes,
            seconds=seconds,
            client_cpu_s=(_own_cpu_seconds() - self._client_cpu_s) * share,
            broker_cpu_s=(_broker_cpu_seconds(self._load) - self._broker_cpu_s) * share,
            latencies_ms=latencies_ms or [],
        )


class _Failures:
    """Collects delivery reports; with `delivery.report.only.error` these are failures only."""

    def __init__(self) -> None:
        self.first: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self.first is None:
            self.first = error

    def raise_if_any(self) -> None:
        if self.first is not None:
            raise MeasurementError(f"a record was not delivered: {self.first.str()}")


def produce(load: Load) -> LoadResult:
    """Produces at full speed. The clock runs from the first record to the last acknowledgement."""
    deadline_s = time.monotonic() + load.time_limit_s
    failures = _Failures()
    producer = _producer(load, {"delivery.report.only.error": True})
    chunks = cycle(_chunks(os.urandom(load.record_bytes), load.key_count))
    _send_probe(producer, load, failures)

    stopwatch = _Stopwatch(load)
    sent = 0
    while sent < load.record_count:
        chunk = next(chunks)
        records = chunk[: load.record_count - sent]
        while len(producer) > _QUEUE_RECORDS - _CHUNK_RECORDS:
            producer.poll(0.001)
            _check_deadline(deadline_s, load, sent)
        accepted = producer.produce_batch(load.topic, records, partition=_PARTITION, on_delivery=failures)
        if accepted != len(records):
            raise MeasurementError(f"librdkafka's queue took {accepted} of {len(records)} records")
        sent += accepted
        failures.raise_if_any()
    unconfirmed = producer.flush(max(0.0, deadline_s - time.monotonic()))
    result = stopwatch.stop(sent, sent)

    failures.raise_if_any()
    if unconfirmed:
        raise MeasurementError(f"{unconfirmed:,} records were not acknowledged within {load.time_limit_s:g} s")
    _check_stored(load, sent)
    return result


def sustained(load: Load) -> LoadResult:
    """Produces for `warm_up_s` and then `measured_s`, however much the broker takes. Counts acknowledged records."""
    producer = _producer(load, {"queue.buffering.max.kbytes": 4096})
    value = os.urandom(load.record_bytes)
    failures = _Failures()
    acknowledged = 0

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal acknowledged
        failures(error, message)
        acknowledged += 1

    def send_until(moment_s: float) -> None:
        while time.perf_counter() < moment_s:
            try:
                producer.produce(load.topic, value, partition=_PARTITION, on_delivery=on_delivery)
                producer.poll(0)
            except BufferError:
                producer.poll(0.005)
        failures.raise_if_any()

    _send_probe(producer, load, failures)
    send_until(time.perf_counter() + load.warm_up_s)
    before, stopwatch = acknowledged, _Stopwatch(load)
    send_until(time.perf_counter() + load.measured_s)
    count = acknowledged - before
    result = stopwatch.stop(count, count)
    producer.purge()
    return result


def _chunks(value: bytes, key_count: int) -> list[list[dict[str, bytes]]]:
    if not key_count:
        return [[{"value": value}] * _CHUNK_RECORDS]
    records = [{"key": b"%016d" % number, "value": value} for number in range(key_count)]
    return [records[start : start + _CHUNK_RECORDS] for start in range(0, key_count, _CHUNK_RECORDS)]


def paced(load: Load) -> LoadResult:
    """Produces at a fixed rate for `warm_up_s` and then `measured_s`. A latency runs from the moment when its record
    was due, so that a producer that falls behind shows it."""
    producer = _producer(load, {})
    value = os.urandom(load.record_bytes)
    failures = _Failures()
    latencies_ms: list[float] = []
    interval_s = 1.0 / load.records_per_second
    warm_up_count = int(load.warm_up_s * load.records_per_second)
    count = warm_up_count + int(load.measured_s * load.records_per_second)

    def delivered(due_s: float, error: KafkaError | None, message: Message) -> None:
        failures(error, message)
        latencies_ms.append((time.perf_counter() - due_s) * 1000)

    _send_probe(producer, load, failures)
    gc.disable()
    began_s = time.perf_counter()
    stopwatch = _Stopwatch(load)
    for number in range(count):
        if number == warm_up_count:
            stopwatch = _Stopwatch(load)
        due_s = began_s + number * interval_s
        while (early_s := due_s - time.perf_counter()) > 0:
            producer.poll(min(early_s, 0.001))
        producer.produce(load.topic, value, partition=_PARTITION, on_delivery=partial(delivered, due_s))
        producer.poll(0)
    unconfirmed = producer.flush(load.time_limit_s)
    result = stopwatch.stop(count - warm_up_count, count - warm_up_count, latencies_ms[warm_up_count:])
    failures.raise_if_any()
    if unconfirmed:
        raise MeasurementError(f"{unconfirmed:,} records were not acknowledged")
    return result


def transactions(load: Load) -> LoadResult:
    """Runs one transaction after the other: begin, produce, commit. The clock stops at the last commit."""
    deadline_s = time.monotonic() + load.time_limit_s
    failures = _Failures()
    producer = _producer(load, {"delivery.report.only.error": True})
    producer.init_transactions(START_ALLOWANCE_S)
    records = [{"value": os.urandom(load.record_bytes)}] * load.records_per_transaction
    producer.begin_transaction()
    _send_probe(producer, load, failures)
    producer.commit_transaction(START_ALLOWANCE_S)

    stopwatch = _Stopwatch(load)
    sent = 0
    while sent < load.record_count:
        producer.begin_transaction()
        accepted = producer.produce_batch(load.topic, records, partition=_PARTITION, on_delivery=failures)
        if accepted != len(records):
            raise MeasurementError(f"librdkafka's queue took {accepted} of {len(records)} records")
        producer.commit_transaction(max(0.0, deadline_s - time.monotonic()))
        sent += accepted
        _check_deadline(deadline_s, load, sent)
    result = stopwatch.stop(sent, sent)

    failures.raise_if_any()
    # librdkafka's default is read_committed; every commit left a marker after the records.
    _check_stored(load, sent + sent // load.records_per_transaction)
    return result


def consume(load: Load) -> LoadResult:
    """Consumes from offset 0, without a group. The clock starts with the first records, after connecting."""
    deadline_s = time.monotonic() + load.time_limit_s
    gc.disable()  # otherwise it would traverse a hundred thousand live messages again and again
    consumer = _consumer(load)
    try:
        stopwatch = _Stopwatch(load)
        consumer.assign([TopicPartition(load.topic, _PARTITION, 0)])
        received = received_before_clock = 0
        last: Message | None = None
        while received < load.record_count:
            wanted = min(_CHUNK_RECORDS, load.record_count - received)
            messages = consumer.consume(num_messages=wanted, timeout=1.0)
            _check_deadline(deadline_s, load, received)
            if not messages:
                continue
            last = messages[-1]
            received += len(messages)
            if not received_before_clock:
                received_before_clock = received
                stopwatch.restart_wall_clock()
        result = stopwatch.stop(received - received_before_clock, received)
        _check_gapless(last, received)
    finally:
        consumer.close()
    return result


def one_at_a_time(load: Load) -> LoadResult:
    """Sends a record, waits for its acknowledgement, sends the next."""
    deadline_s = time.monotonic() + load.time_limit_s
    producer = _producer(load, {})
    value = os.urandom(load.record_bytes)
    outcomes: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        outcomes.append(error)

    latencies_ms: list[float] = []
    stopwatch = _Stopwatch(load)
    for number in range(load.warm_up_count + load.record_count):
        if number == load.warm_up_count:
            stopwatch = _Stopwatch(load)
        outcomes.clear()
        sent_ns = time.perf_counter_ns()
        producer.produce(load.topic, value, partition=_PARTITION, on_delivery=on_delivery)
        while not outcomes:
            producer.poll(1.0)
            _check_deadline(deadline_s, load, number)
        acknowledged_ns = time.perf_counter_ns()
        if outcomes[0] is not None:
            raise MeasurementError(f"a record was not delivered: {outcomes[0].str()}")
        if number >= load.warm_up_count:
            latencies_ms.append((acknowledged_ns - sent_ns) / 1e6)
    return stopwatch.stop(load.record_count, load.record_count, latencies_ms)


def _producer(load: Load, config: dict[str, str | int | bool]) -> Producer:
    return Producer({"bootstrap.servers": load.bootstrap_servers, **config, **load.client_config})


def _consumer(load: Load) -> Consumer:
    # librdkafka requires a group id even for assigned partitions; nothing is committed.
    config = {"bootstrap.servers": load.bootstrap_servers, "group.id": "bench", "enable.auto.commit": False}
    return Consumer({**config, **load.client_config})


def _of_all_clients(config: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
    """A producer's settings that a consumer has too."""
    return {name: value for name, value in config.items() if name.startswith(("security.", "ssl.", "client."))}


def _send_probe(producer: Producer, load: Load, failures: _Failures) -> None:
    """Sends one record before the clock starts, so that connection, metadata and producer id exist when it does."""
    producer.produce(load.topic, b"", key=b"probe", partition=_PARTITION, on_delivery=failures)
    unconfirmed = producer.flush(START_ALLOWANCE_S)
    failures.raise_if_any()
    if unconfirmed:
        raise MeasurementError(f"the first record was not acknowledged within {START_ALLOWANCE_S:g} s")


def _check_deadline(deadline_s: float, load: Load, done: int) -> None:
    if time.monotonic() > deadline_s:
        raise MeasurementError(f"only {done:,} records after {load.time_limit_s:g} s")


def _check_stored(load: Load, sent: int) -> None:
    consumer = _consumer(dataclasses.replace(load, client_config=_of_all_clients(load.client_config)))
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(load.topic, _PARTITION), timeout=10.0)
    finally:
        consumer.close()
    if high - low < sent:
        raise MeasurementError(f"{sent:,} records were acknowledged and {high - low:,} are in the log")


def _check_gapless(last: Message | None, received: int) -> None:
    """Error events count like messages, so a count that matches the last offset excludes errors and gaps."""
    if last is None or last.error() is not None or last.offset() != received - 1:
        where = "nothing" if last is None else last.error() or f"offset {last.offset():,}"
        raise MeasurementError(f"{received:,} messages came, the last one being {where}")


def _broker_cpu_seconds(load: Load) -> float:
    return sum(cpu_seconds(pid) for pid in (load.broker_pid, *load.other_pids))


def _own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    load = Load(**json.loads(sys.argv[1]))
    loops: dict[Kind, Callable[[Load], LoadResult]] = {
        "produce": produce,
        "sustained": sustained,
        "paced": paced,
        "transactions": transactions,
        "consume": consume,
        "one_at_a_time": one_at_a_time,
    }
    try:
        result = loops[load.kind](load)
    except (MeasurementError, KafkaException, BufferError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
