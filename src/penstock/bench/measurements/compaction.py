"""Compaction of a large log, and what it does to a producer of another topic.

Two logs are filled with the same keys again and again, while a long `min.compaction.lag.ms` keeps the cleaner away.
Taking that away starts the clock; the cleaner's checkpoint, which both brokers write when a log is compacted, stops it.
The first log is compacted alone, the second while a producer sends one record at a time to another topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.bench.figures import percentile
from penstock.bench.load import Load
from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.measurements.one_at_a_time import produce_one_at_a_time
from penstock.bench.metric import AT_LEAST_LEVEL, AT_MOST_LEVEL, Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.process_usage import cpu_seconds
from penstock.bench.sizes import GB, Sizes
from penstock.bench.topics import alter_topic, create_topic

_NEIGHBOUR: Final = "neighbour"
_CHECKPOINT: Final = "cleaner-offset-checkpoint"
_VALUES_PER_KEY: Final = 10
_SEGMENTS: Final = 20
_SEGMENT_BYTES_MIN: Final = 1 << 20  # Kafka's minimum
_LAG: Final = "min.compaction.lag.ms"
_A_DAY_MS: Final = "86400000"
_POLL_S: Final = 0.02
_AT_MOST_TWICE: Final = Target(value_at_most=2.0)
_BROKER_CONFIG: Final = {"log.cleaner.backoff.ms": "100"}


@dataclass(frozen=True, slots=True)
class Compaction:
    sizes: Sizes
    name: str = "compaction"
    title: str = "Compaction of a log, alone and beside a producer"

    @property
    def metrics(self) -> Sequence[Metric]:
        size = f"{self.sizes.compaction_bytes / GB:g} GB"
        return [
            Metric("compaction.rate", f"{size} of 1 KB records", Unit.BYTES_PER_SECOND, AT_LEAST_LEVEL),
            Metric("compaction.cpu", "· broker CPU", Unit.CPU_SECONDS_PER_GB),
            Metric("compaction.idle_p99", "produce one at a time, p99, idle", Unit.MILLISECONDS),
            Metric("compaction.busy_p99", f"· while {size} are compacted", Unit.MILLISECONDS, AT_MOST_LEVEL),
            Metric("compaction.slowdown", "· busy against idle", Unit.TIMES, _AT_MOST_TWICE),
        ]

    @property
    def disk_bytes(self) -> int:
        return int(self.sizes.compaction_bytes * 2 * (1 + 1 / _VALUES_PER_KEY) * 1.1)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        with contestant.fresh(workbench.data_parent, _BROKER_CONFIG) as peer:
            logs = [self._filled(peer, name, workbench) for name in ("compacted-alone", "compacted-beside")]
            create_topic(peer.bootstrap_servers, _NEIGHBOUR, self.sizes.time_limit_s)

            workbench.tell("compacting, alone")
            cpu_before_s = cpu_seconds(peer.pid)
            alone = _Cleaning(peer, logs[0], self.sizes.time_limit_s)
            alone_s = alone.seconds()
            cpu_s = cpu_seconds(peer.pid) - cpu_before_s

            workbench.tell("producing one at a time, idle")
            idle_ms = self._neighbour(peer, warm_up_count=self.sizes.one_at_a_time_warm_up_count)
            workbench.tell("producing one at a time, while a log is compacted")
            beside = _Cleaning(peer, logs[1], self.sizes.time_limit_s)
            busy_ms = self._neighbour(peer)
            while not beside.is_done():
                more_ms = self._neighbour(peer)
                if not beside.is_done():
                    busy_ms += more_ms
            beside.seconds()
        idle_p99, busy_p99 = percentile(idle_ms, 0.99), percentile(busy_ms, 0.99)
        return {
            "compaction.rate": logs[0].dirty_bytes / alone_s,
            "compaction.cpu": cpu_s / (logs[0].dirty_bytes / GB),
            "compaction.idle_p99": idle_p99,
            "compaction.busy_p99": busy_p99,
            "compaction.slowdown": busy_p99 / idle_p99,
        }

    def _filled(self, peer: Peer, topic: str, workbench: Workbench) -> _Log:
        workbench.tell(f"filling {topic}")
        sizes = self.sizes
        segment_bytes = max(_SEGMENT_BYTES_MIN, sizes.compaction_bytes // _SEGMENTS)
        config = {"cleanup.policy": "compact", _LAG: _A_DAY_MS, "segment.bytes": str(segment_bytes)}
        create_topic(peer.bootstrap_servers, topic, sizes.time_limit_s, config=config)
        record_count = sizes.compaction_bytes // sizes.large_record_bytes
        Load(
            kind="produce",
            bootstrap_servers=peer.bootstrap_servers,
            broker_pid=peer.pid,
            topic=topic,
            record_bytes=sizes.large_record_bytes,
            record_count=record_count,
            key_count=record_count // _VALUES_PER_KEY,
            time_limit_s=sizes.time_limit_s,
            client_config={"acks": "1"},
        ).run()
        return _Log.of(peer, topic)

    def _neighbour(self, peer: Peer, warm_up_count: int = 0) -> list[float]:
        return produce_one_at_a_time(peer, _NEIGHBOUR, self.sizes, warm_up_count=warm_up_count)


@dataclass(frozen=True, slots=True)
class _Log:
    """A log before it is compacted. The active segment, the last one, is left as it is."""

    topic: str
    directory: Path
    dirty_bytes: int
    end_offset: int

    @classmethod
    def of(cls, peer: Peer, topic: str) -> _Log:
        directory = next(peer.data_dir.rglob(f"{topic}-0"))
        *full, active = sorted(directory.glob("*.log"))
        if not full:
            raise MeasurementError(f"{topic} has one segment only, which is never compacted")
        return cls(topic, directory, sum(file.stat().st_size for file in full), int(active.stem))


class _Cleaning(threading.Thread):
    """Allows a log's compaction and waits for it."""

    def __init__(self, peer: Peer, log: _Log, time_limit_s: float) -> None:
        super().__init__(name="bench-cleaning")
        self._peer = peer
        self._log = log
        self._time_limit_s = time_limit_s
        self._done_s: float | None = None
        self._begun_s = time.perf_counter()
        alter_topic(peer.bootstrap_servers, log.topic, _LAG, "0")
        self.start()

    def run(self) -> None:
        while time.perf_counter() < self._begun_s + self._time_limit_s:
            if self._cleaned_offset() >= self._log.end_offset:
                self._done_s = time.perf_counter()
                return
            time.sleep(_POLL_S)

    def is_done(self) -> bool:
        return not self.is_alive()

    def seconds(self) -> float:
        self.join()
        if self._done_s is None:
            raise MeasurementError(f"{self._log.topic} was not compacted within {self._time_limit_s:g} s")
        cleaned = (file for file in self._log.directory.glob("*.log") if int(file.stem) < self._log.end_offset)
        left = sum(file.stat().st_size for file in cleaned)
        if left >= self._log.dirty_bytes / 2:
            raise MeasurementError(f"{self._log.topic} holds {left:,} bytes after its compaction")
        return self._done_s - self._begun_s

    def _cleaned_offset(self) -> int:
        """From lines of topic, partition and offset, below a version and a count."""
        for file in self._peer.data_dir.rglob(_CHECKPOINT):
            for line in file.read_text().splitlines()[2:]:
                topic, partition, offset = line.split()
                if (topic, partition) == (self._log.topic, "0"):
                    return int(offset)
        return -1
