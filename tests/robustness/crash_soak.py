"""Kill -9 under load, again and again: what was acknowledged is there once, at its offset, in order.

`python -m tests.robustness.crash_soak --kills 500 --seed 1` runs long; `test_crash.py` runs a slice of it. Load and
reader live across the kills. Kills come at random moments, right after a log grew (written, and not yet acknowledged),
and right after a new segment was begun. Now and then a start or a stop is killed too, a torn half batch is left behind,
or the broker is stopped cleanly in between. The clients' threads are not under a seed's control, so a seed repeats the
plan of a run and not its every byte.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.local_broker.process import BrokerProcess, BrokerProcessError, WithParent
from penstock.testing import Broker
from tests.robustness.crash_clients import FORGETTING, IDEMPOTENT, REPEATING, LiveReader, Load, read_all
from tests.robustness.crash_disk import active_segment, log_end, tear_tail
from tests.robustness.crash_ledger import Partition, Verdict

TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    "rolling": {"internal.segment.bytes": "262144"},
    "megabytes": {"segment.bytes": "1048576"},
    "flushed": {"flush.messages": "1", "internal.segment.bytes": "524288"},
}
PARTITIONS: Final = 2
RECORDS_PER_SECOND: Final = 9000
_MOMENT_TIMEOUT_S: Final = 5.0
_CLEAN_MARKER: Final = ".kafka_cleanshutdown"
_READY_LINE: Final = "penstock broker: listening on"


@dataclass(slots=True)
class Report:
    """The figures of one run."""

    seed: int
    kills: int = 0
    kills_of_starts: int = 0
    kills_of_stops: int = 0
    clean_restarts: int = 0
    kills_with_unacked: int = 0  # records had been handed to the producers, and no report had come
    kills_in_window: int = 0  # the log went beyond what had been acknowledged
    records_in_window: int = 0
    torn_by_kill: int = 0
    torn_by_hand: int = 0
    tails_cut: int = 0  # as the broker reported them
    segments: int = 0
    seen_live: int = 0
    seconds: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Everything was delivered, once and in order, and nobody saw anything odd on the way."""
        return self.verdict.is_exactly_once and self.verdict.acked == self.verdict.sent and not self.problems

    def lines(self) -> list[str]:
        v = self.verdict
        return [
            f"seed {self.seed}: {self.kills} kills under load, {self.kills_of_stops} of them of a stopping broker, "
            f"{self.kills_of_starts} kills of a starting one, {self.clean_restarts} clean restarts, "
            f"{self.seconds:.0f} s",
            f"  kills with unacknowledged records: {self.kills_with_unacked}; "
            f"that hit between write and ack: {self.kills_in_window} ({self.records_in_window} records)",
            f"  torn tails: {self.torn_by_kill} by kills, {self.torn_by_hand} by hand, {self.tails_cut} cut; "
            f"segments: {self.segments}; records read live: {self.seen_live}",
            f"  sent {v.sent}, acked {v.acked}, failed {v.failed}, found {v.found}",
            f"  lost {v.lost}, repeated {v.repeated}, out of order {v.out_of_order}, "
            f"at another offset {v.misplaced}, strange {v.strange}",
            *(f"  problem: {problem}" for problem in self.problems),
        ]


class CrashSoak:
    """One broker, one load, one reader, and the one who kills."""

    def __init__(self, broker: Broker, guarantee: Mapping[str, str], seed: int) -> None:
        self._broker = broker
        self._chance = random.Random(seed)
        self.report = Report(seed)
        self._directories = {
            Partition(number, index): broker.data_dir / f"{topic}-{index}"
            for number, topic in enumerate(TOPICS)
            for index in range(PARTITIONS)
        }
        _create_topics(broker)
        self._reader = LiveReader(broker.bootstrap_servers, list(TOPICS), PARTITIONS)
        self._load = Load(
            broker.bootstrap_servers, list(TOPICS), PARTITIONS, guarantee, seed, records_per_second=RECORDS_PER_SECOND
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._load.stop()
        self._reader.stop()

    def run(self, kills: int, progress: Callable[[Report], None] | None = None) -> Report:
        began = time.monotonic()
        for _ in range(kills):
            self._load_and_kill()
            self._bring_back()
            if progress is not None:
                progress(self.report)
        missing = self._load.finish()
        if missing:
            self.report.problems.append(f"{missing} records were neither delivered nor given up")
        self._judge()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _load_and_kill(self) -> None:
        time.sleep(self._chance.uniform(0.05, 1.2))
        if self._chance.random() < 0.1:
            os.kill(self._broker.pid, signal.SIGTERM)
            time.sleep(self._chance.uniform(0, 0.03))
            self.report.kills_of_stops += 1
        else:
            moment = self._chance.choice([_at_once, _log_grows, _log_grows, _segment_rolls])
            moment(self._chance.choice(list(self._directories.values())))
        os.kill(self._broker.pid, signal.SIGKILL)
        unacked = self._load.unacked
        self._broker.kill()
        self.report.kills += 1
        self.report.kills_with_unacked += unacked > 0
        self._look_at_the_dead()

    def _look_at_the_dead(self) -> None:
        """Compares the files with what has been acknowledged."""
        self._load.drain_reports()
        beyond = 0
        for partition, directory in self._directories.items():
            acked_end = self._load.ledger.acked_end.get(partition, 0)
            end = log_end(directory)
            self.report.torn_by_kill += end.torn_bytes > 0
            if not self._load.tells_offsets:
                continue
            beyond += max(0, end.end_offset - acked_end)
            if end.end_offset < acked_end:
                self.report.problems.append(f"{directory.name} ends at {end.end_offset}, {acked_end} was acknowledged")
        self.report.kills_in_window += beyond > 0
        self.report.records_in_window += beyond

    def _bring_back(self) -> None:
        # A broker that came to the end of its stop had finished all of its writes.
        if self._chance.random() < 0.25 and not (self._broker.data_dir / _CLEAN_MARKER).exists():
            self.report.torn_by_hand += tear_tail(self._chance.choice(list(self._directories.values())), self._chance)
        if self._chance.random() < 0.2:
            self._kill_a_start()
        self._broker.start()
        self._count_cut_tails()
        if self._chance.random() < 0.1:
            time.sleep(0.2)
            self._broker.restart()
            self.report.clean_restarts += 1

    def _kill_a_start(self) -> None:
        """Recovery itself is interrupted, at any of its steps."""
        try:
            BrokerProcess.start(
                self._broker.data_dir,
                listen=self._broker.bootstrap_servers,
                settings=self._broker.config,
                lifetime=WithParent(),
                timeout_s=self._chance.uniform(0.1, 0.5),
            ).kill()
        except BrokerProcessError as not_ready:
            if not_ready.exit_code is not None:
                self.report.problems.append(str(not_ready))
        self.report.kills_of_starts += 1

    def _count_cut_tails(self) -> None:
        """A torn tail is cut and reported. Nothing else may be: a kill damages nothing that had been written."""
        for line in self._broker.stderr_text().splitlines():
            if "cut off a torn tail" in line:
                self.report.tails_cut += 1
            elif _READY_LINE not in line:
                self.report.problems.append(f"the broker reported: {line}")

    def _judge(self) -> None:
        """After one more kill: what is there, against what was acknowledged and against what the reader has seen."""
        report, reader = self.report, self._reader
        self._broker.kill()
        ends = {partition: log_end(directory).end_offset for partition, directory in self._directories.items()}
        report.segments = sum(len(list(directory.glob("*.log"))) for directory in self._directories.values())
        self._broker.start()
        self._count_cut_tails()
        reader.finish(ends)
        report.seen_live = reader.records_seen
        report.problems += [f"the reader: {problem}" for problem in reader.problems]
        changed = 0

        def visit(partition: Partition, offset: int, value: bytes) -> None:
            nonlocal changed
            self._load.ledger.found(partition, offset, value)
            seen = reader.seen[partition]
            changed += offset >= len(seen) or seen[offset] != zlib.crc32(value)

        ends, problems = read_all(self._broker.bootstrap_servers, list(TOPICS), PARTITIONS, visit)
        report.problems += problems
        if changed:
            report.problems.append(f"{changed} records are not what the reader had seen at their offsets")
        vanished = sum(max(0, len(seen) - ends[partition]) for partition, seen in reader.seen.items())
        if vanished:
            report.problems.append(f"{vanished} records that the reader had seen are gone")
        report.problems += [f"a producer: {error}" for error in self._load.fatal_errors]
        report.verdict = self._load.ledger.verdict()


def crash(
    guarantee: Mapping[str, str], *, kills: int, seed: int, progress: Callable[[Report], None] | None = None
) -> Report:
    """One whole run on a broker of its own."""
    with Broker() as broker, CrashSoak(broker, guarantee, seed) as soak:
        return soak.run(kills, progress)


def _create_topics(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": "0"})
    wanted = [NewTopic(name, PARTITIONS, 1, config=dict(config)) for name, config in TOPICS.items()]
    for created in admin.create_topics(wanted).values():
        created.result()


# The moments to kill at. Each waits for its moment in one partition, for a while; a tight loop, to be there in time.


def _at_once(directory: Path) -> None:
    pass


def _log_grows(directory: Path) -> None:
    segment = active_segment(directory)
    size = segment.stat().st_size
    _await(lambda: segment.stat().st_size != size)


def _segment_rolls(directory: Path) -> None:
    count = len(os.listdir(directory))
    _await(lambda: len(os.listdir(directory)) != count)


def _await(moment: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _MOMENT_TIMEOUT_S
    while not moment() and time.monotonic() < deadline:
        pass


def _show_progress(report: Report) -> None:
    if sys.stderr.isatty():
        print(f"\r{report.kills} kills, {report.kills_in_window} between write and ack", end="", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill -9 under load, and count what was lost and what came twice.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="repeats the plan of a run (default: a new one)")
    parser.add_argument("--weaker-kills", type=int, default=10, help="kills of the two settings that must fail")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    good = True
    # The weaker settings show that the kills come at moments that matter: what they get wrong, idempotence gets right.
    for name, guarantee, kills in (
        ("idempotent, acks=all: must hold", IDEMPOTENT, options.kills),
        ("acks=1 with retries: must repeat", REPEATING, options.weaker_kills),
        ("acks=0: must lose", FORGETTING, options.weaker_kills),
    ):
        report = crash(guarantee, kills=kills, seed=seed, progress=_show_progress)
        if guarantee is IDEMPOTENT:
            as_expected = report.holds
        elif guarantee is REPEATING:
            as_expected = report.verdict.repeated > 0
        else:
            as_expected = report.verdict.lost > 0
        good = good and as_expected
        print(f"{'ok' if as_expected else 'FAILED'}: {name}")
        print("\n".join(report.lines()), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
