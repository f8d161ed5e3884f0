"""The time from the creation of a broker's process to its first acknowledged record.

The client starts before the broker: it tries to connect every few milliseconds, and sends its record once the metadata
names leaders. It is not librdkafka, which waits up to a second between attempts, longer than what is measured. The
process's age comes from the system, because the work of a test fixture before it creates the process (finding Java,
writing a file) is not part of the start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.bench.measurement import MeasurementError
from penstock.bench.peers import Peer
from penstock.bench.process_usage import age_s
from penstock.bench.raw_client import RawClient
from penstock.bench.raw_frames import record_batch

_PATIENCE_S: Final = 0.002


def start_to_first_ack(
    peer: Peer, topic: str, *, partition: int = 0, partition_count: int = 1, time_limit_s: float
) -> float:
    """Starts a stopped peer. Seconds until every partition has a leader and a record to `partition` is acknowledged."""
    address = peer.bootstrap_servers
    with starting(peer) as starter:
        acknowledged_s = _await_ack(
            address,
            topic,
            partition=partition,
            partition_count=partition_count,
            starter=starter,
            time_limit_s=time_limit_s,
        )
    return since_process_start(peer.pid, acknowledged_s)


@contextmanager
def starting(peer: Peer) -> Iterator[Starter]:
    """Starts a stopped peer in another thread. At the end of the context it runs, or a MeasurementError is raised."""
    starter = Starter(peer)
    starter.start()
    try:
        yield starter
    finally:
        # `Peer.start` has its own timeout; a peer must not be stopped while it starts.
        starter.join()
    if starter.failure is not None:
        raise MeasurementError(f"the broker did not start: {starter.failure}") from starter.failure


def since_process_start(pid: int, moment_s: float) -> float:
    """`moment_s` was taken from time.perf_counter()."""
    return age_s(pid) - (time.perf_counter() - moment_s)


def _await_ack(
    address: str, topic: str, *, partition: int, partition_count: int, starter: Starter, time_limit_s: float
) -> float:
    batch = record_batch(1, b"first", int(time.time() * 1000))
    deadline_s = time.perf_counter() + time_limit_s
    obstacle = "no connection"
    while time.perf_counter() < deadline_s and starter.failure is None:
        try:
            with RawClient(address, topic, time_limit_s) as client:
                while time.perf_counter() < deadline_s:
                    led = client.led_partitions()
                    if led == partition_count:
                        answer = client.produce(partition, batch)
                        if answer.error == 0:
                            return time.perf_counter()
                        obstacle = f"error {answer.error}"
                    else:
                        obstacle = f"{led} of {partition_count} partitions had a leader"
                    time.sleep(_PATIENCE_S)
        except OSError as refused:
            obstacle = str(refused)
            time.sleep(_PATIENCE_S)
    raise MeasurementError(f"no record was acknowledged within {time_limit_s:g} s of the start: {obstacle}")


class Starter(threading.Thread):
    """Starts the peer in a thread: `Peer.start` may return before or after the record is acknowledged."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(name="bench-start")
        self._peer = peer
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            self._peer.start()
        except (OSError, RuntimeError) as failure:
            self.failure = failure
