"""A minimal Kafka client on one socket, whose own overhead is as small as possible.

Owns the connection and the order of requests and responses; `raw_frames.py` encodes and decodes them.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final, Self

from penstock.bench.measurement import MeasurementError
from penstock.bench.raw_frames import (
    ProduceAnswer,
    check_fetch_answer,
    fetch_request,
    led_partitions,
    metadata_request,
    produce_request,
    read_produce_answer,
)

_BURST_REQUESTS: Final = 8
_BURSTS_IN_FLIGHT: Final = 2
_ANSWER_BYTES_MAX: Final = 1 << 26


class RawClient:
    """A context manager. Requests to a broker that is still starting raise OSError and may be repeated."""

    def __init__(self, bootstrap_servers: str, topic: str, answer_timeout_s: float) -> None:
        host, port = bootstrap_servers.rsplit(":", 1)
        self._topic = topic
        self._socket = socket.create_connection((host, int(port)), timeout=answer_timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb", buffering=1 << 18)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._answers.close()
        self._socket.close()

    def led_partitions(self) -> int:
        """The number of partitions with a leader; the request creates the topic if the broker allows it."""
        self._socket.sendall(metadata_request(self._topic, correlation_id=1))
        return led_partitions(self._read_answer())

    def produce(self, partition: int, batch: bytes) -> ProduceAnswer:
        self._socket.sendall(produce_request(self._topic, partition, batch, correlation_id=1))
        return read_produce_answer(self._read_answer())

    def fill(self, batch: bytes, batch_count: int, time_limit_s: float) -> int:
        """Appends to partition 0, rounded up to whole bursts; returns the base offset of the last batch."""
        deadline_s = time.monotonic() + time_limit_s
        burst = b"".join(produce_request(self._topic, 0, batch, number) for number in range(_BURST_REQUESTS))
        burst_count = -(-batch_count // _BURST_REQUESTS)
        last = ProduceAnswer(0, -1)
        for number in range(burst_count + _BURSTS_IN_FLIGHT):
            if number < burst_count:
                self._socket.sendall(burst)
            if number >= _BURSTS_IN_FLIGHT:
                last = self._read_burst_answers()
            if time.monotonic() > deadline_s:
                raise MeasurementError(f"filling {self._topic} took more than {time_limit_s:g} s")
        return last.base_offset

    def fetch_one(self, offset: int) -> float:
        """Reads the batch that contains `offset`; returns the milliseconds from request to complete response."""
        request = fetch_request(self._topic, 0, offset, correlation_id=1)
        sent_ns = time.perf_counter_ns()
        self._socket.sendall(request)
        answer = self._read_answer()
        received_ns = time.perf_counter_ns()
        check_fetch_answer(answer, offset)
        return (received_ns - sent_ns) / 1e6

    def _read_burst_answers(self) -> ProduceAnswer:
        answer = ProduceAnswer(0, -1)
        for _ in range(_BURST_REQUESTS):
            answer = read_produce_answer(self._read_answer())
            if answer.error:
                raise MeasurementError(f"a produce request to {self._topic} failed with error {answer.error}")
        return answer

    def _read_answer(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        if not 0 <= size <= _ANSWER_BYTES_MAX:
            raise MeasurementError(f"the broker announced a response of {size} bytes")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data: bytes = self._answers.read(size)
        if len(data) != size:
            raise ConnectionError(f"the broker closed the connection after {len(data)} of {size} bytes")
        return data
