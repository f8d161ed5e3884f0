"""A copy from topic to topic while everything around it fails: every record comes out once, in order, or the copy lies.

`python -m tests.robustness.transaction_soak --kills 30 --records 100000` runs long; `test_transaction_soak.py` runs a
slice of it. Two workers copy in transactions of about 500 records, with their offsets inside. Meanwhile the broker and
the workers are killed with -9, and connections are cut: at random moments, and at those that matter (records of an open
transaction have just been written, its commit has just been asked for). One reader follows all along; others read
everything in the end. Processes and threads are not under a seed's control, so a seed repeats the plan of a run and not
its every byte.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.local_broker.process import BrokerProcessError
from penstock.testing import Broker
from tests.robustness.crash_disk import open_producers
from tests.robustness.cutting_proxy import CUT_REQUESTS, Cut, CuttingProxy
from tests.robustness.transaction_copier import AT_LEAST_ONCE, CLIENT_SETTINGS, EXACTLY_ONCE, INPUT, OUTPUT
from tests.robustness.transaction_ledger import (
    INPUT_PARTITIONS,
    OUTPUT_PARTITIONS,
    Event,
    Journal,
    Verdict,
    compare_views,
    input_value,
    judge,
)
from tests.robustness.transaction_readers import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    LiveReader,
    committed_offsets,
    read_everything,
)
from tests.robustness.transaction_workers import Workers

# A group need not wait for more members: one that comes later is one more rebalance.
_CONFIG: Final = {"group.initial.rebalance.delay.ms": "0"}
_STUCK_S: Final = 90.0
_MOMENT_TIMEOUT_S: Final = 3.0
# What a fault waits for, and up to how many seconds it then lets pass. A commit takes a few milliseconds.
Moment = tuple[Event | None, float]
_WRITTEN: Final[Moment] = (Event.WRITTEN, 0.02)
_MOMENTS_IN_TRANSACTION: Final[tuple[Moment, ...]] = (
    _WRITTEN,
    (Event.COMMITTING, 0.0),
    (Event.COMMITTING, 0.002),
)
_MOMENTS: Final[tuple[Moment, ...]] = ((None, 0.3), *_MOMENTS_IN_TRANSACTION)
_SETTLE_S: Final = 0.05  # in which what a worker was told before a kill is told to us
_READY_LINE: Final = "penstock broker: listening on"


class Fault(Enum):
    KILL_BROKER = "broker killed"
    KILL_WORKER = "worker killed"
    CUT = "connections cut"


@dataclass(slots=True)
class Report:
    """The figures of one run."""

    guarantee: str
    seed: int
    kills: int = 0
    kills_in_transaction: int = 0  # the dead broker's files hold records of transactions without their markers
    kills_in_commit: int = 0  # a commit had been asked for, and nobody had been told how it went
    worker_kills: int = 0
    cuts: Counter[Cut] = field(default_factory=Counter)
    aborts: int = 0  # that workers asked for, or were told to ask for
    tails_cut: int = 0
    seconds: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)
    uncommitted_verdict: Verdict = field(default_factory=Verdict)  # the same run, as `read_uncommitted` shows it
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.verdict.is_exactly_once and not self.problems

    @property
    def shows_something(self) -> bool:
        """The faults came at moments that matter, and there was something that must not be read."""
        cut_everywhere = all(self.cuts[cut] for cut in Cut)
        return bool(self.kills_in_transaction and self.worker_kills and cut_everywhere and self.verdict.aborted_in_log)

    def line(self) -> str:
        v = self.verdict
        cuts = ", ".join(f"{self.cuts[cut]} {cut.value}" for cut in Cut)
        figures = (
            f"{self.guarantee} with seed {self.seed}: sent {v.sent}, copied {v.copied} in {v.transactions} batches; "
            f"{self.kills} kills of the broker ({self.kills_in_transaction} inside open transactions, "
            f"{self.kills_in_commit} between commit and answer), {self.worker_kills} of workers, "
            f"{self.cuts.total()} connections cut ({cuts}); "
            f"{self.aborts} aborts told, {v.aborted_in_log} aborted records in the log, {v.aborted_read} read; "
            f"lost {v.lost}, repeated {v.repeated}, out of order {v.out_of_order}, torn {v.torn}, "
            f"committed and missing {v.committed_missing}, strange {v.strange}; {self.seconds:.0f} s"
        )
        return figures

    def uncommitted_line(self) -> str:
        v = self.uncommitted_verdict
        return (
            f"the same run to a read_uncommitted reader: {v.aborted_read} transactions aborted and read, "
            f"{v.torn} torn, {v.repeated} records repeated"
        )

    def problem_lines(self) -> list[str]:
        return [f"  problem: {problem}" for problem in (*self.verdict.problems, *self.problems)]


class TransactionSoak:
    """One broker, its proxy, the workers, the reader along, and the one who makes the faults."""

    def __init__(
        self,
        broker: Broker,
        proxy: CuttingProxy,
        workers: Workers,
        reader: LiveReader,
        journal: Journal,
        report: Report,
    ) -> None:
        self._broker = broker
        self._proxy = proxy
        self._workers = workers
        self._reader = reader
        self._journal = journal
        self._chance = random.Random(report.seed)
        self._report = report
        self._directories = [broker.data_dir / f"{OUTPUT}-{index}" for index in range(OUTPUT_PARTITIONS)]

    def run(self, sent: list[int], kills: int, progress: Callable[[Report, int], None] | None) -> None:
        report = self._report
        for after, fault in self._plan(sum(sent), kills):
            self._await(lambda after=after: self._reader.count >= after)  # type: ignore[misc]
            self._make(fault)
            if progress is not None:
                progress(report, self._reader.count)
        self._await(lambda: committed_offsets(self._proxy.bootstrap_servers) == sent)
        self._workers.finish()
        self._judge(sent)

    def _plan(self, records: int, kills: int) -> list[tuple[int, Fault]]:
        """Each fault with the number of copied records after which it comes."""
        faults = [Fault.KILL_BROKER] * kills + [Fault.KILL_WORKER] * max(3, kills // 3) + [Fault.CUT] * (3 * kills)
        return sorted(
            ((int(self._chance.uniform(0.01, 0.93) * records), fault) for fault in faults),
            key=lambda planned: planned[0],
        )

    def _await(self, reached: Callable[[], bool]) -> None:
        count, deadline = self._reader.count, time.monotonic() + _STUCK_S
        while not reached():
            self._workers.tend()
            if self._reader.count != count:
                count, deadline = self._reader.count, time.monotonic() + _STUCK_S
            if time.monotonic() > deadline:
                raise TimeoutError(f"the copy is stuck after {count} records; the broker said {self._said()}")
            time.sleep(0.02)

    def _said(self) -> str:
        return self._broker.stderr_text() or "nothing"

    def _make(self, fault: Fault) -> None:
        match fault:
            case Fault.KILL_BROKER:
                self._check_what_it_said()
                self._await_moment(_MOMENTS)
                self._kill_broker()
            case Fault.KILL_WORKER:
                # In turn and not by chance: with any seed, some worker dies between what it wrote and its commit.
                # Without transactions that is the one moment that shows, for a commit of offsets is over in no time.
                moments = _MOMENTS_IN_TRANSACTION if self._report.guarantee == EXACTLY_ONCE else (_WRITTEN,)
                moment = moments[self._report.worker_kills % len(moments)]
                self._workers.kill_at(self._await_moment([moment]))
                self._report.worker_kills += 1
            case Fault.CUT if self._chance.random() < 0.3:
                self._await_moment(_MOMENTS)
                self._proxy.cut_all()
            case Fault.CUT:
                where = self._chance.choice([Cut.IN_REQUEST, Cut.BEFORE_ANSWER])
                self._proxy.cut_next(self._chance.choice(CUT_REQUESTS), where)

    def _await_moment(self, moments: Sequence[Moment]) -> str | None:
        """The transaction at which it is, if it is at one."""
        event, then_s = self._chance.choice(moments)
        transaction = None if event is None else self._journal.await_next(event, _MOMENT_TIMEOUT_S)
        time.sleep(self._chance.random() * then_s)
        return transaction

    def _kill_broker(self) -> None:
        report = self._report
        self._broker.kill()
        report.kills += 1
        report.kills_in_transaction += any(open_producers(directory) for directory in self._directories)
        time.sleep(_SETTLE_S)
        report.kills_in_commit += any(map(self._workers.is_at, self._journal.unanswered()))
        time.sleep(self._chance.choice([0.0, 0.0, self._chance.random()]))
        self._broker.start()

    def _check_what_it_said(self) -> None:
        """A kill may tear the last write, which is cut off and reported. Nothing else is to be reported."""
        for line in self._broker.stderr_text().splitlines():
            if "cut off a torn tail" in line:
                self._report.tails_cut += 1
            elif _READY_LINE not in line:
                self._report.problems.append(f"the broker reported: {line}")

    def _judge(self, sent: list[int]) -> None:
        """After one more kill."""
        report, reader, servers = self._report, self._reader, self._proxy.bootstrap_servers
        self._check_what_it_said()
        self._broker.kill()
        for directory in self._directories:
            if open_producers(directory):
                report.problems.append(f"a transaction is left open in {directory.name}")
        self._broker.start()
        committed = read_everything(servers, READ_COMMITTED)
        uncommitted = read_everything(servers, READ_UNCOMMITTED)
        reader.await_count(sum(len(records) for records in committed.values()))
        report.verdict = judge(sent, committed, uncommitted, self._journal)
        report.uncommitted_verdict = judge(sent, uncommitted, uncommitted, self._journal)
        report.problems += reader.problems
        report.problems += compare_views(reader.seen, committed, reader.first_seen_ns, self._journal)
        if (offsets := committed_offsets(servers)) != sent:
            report.problems.append(f"the group's offsets are {offsets}, {sent} were sent")
        report.problems += self._workers.problems
        self._check_what_it_said()


def copy_under_faults(
    guarantee: str,
    *,
    records: int,
    kills: int,
    seed: int,
    progress: Callable[[Report, int], None] | None = None,
) -> Report:
    """One whole run on a broker of its own."""
    began = time.monotonic()
    report, journal = Report(guarantee, seed), Journal()
    with Broker(config=_CONFIG) as broker, CuttingProxy(broker.port, seed) as proxy:
        sent = [len(range(partition, records, INPUT_PARTITIONS)) for partition in range(INPUT_PARTITIONS)]
        report.verdict.sent = records
        _fill_input(broker, sent)
        broker.config["advertised.listeners"] = f"PLAINTEXT://{proxy.bootstrap_servers}"
        broker.restart()
        servers = proxy.bootstrap_servers
        with LiveReader(servers) as reader, Workers(servers, guarantee, journal) as workers:
            soak = TransactionSoak(broker, proxy, workers, reader, journal, report)
            try:
                soak.run(sent, kills, progress)
            except (TimeoutError, KafkaException, BrokerProcessError) as failure:
                report.problems += [str(failure), *workers.problems, *reader.problems]
        report.cuts, report.aborts = proxy.cuts, journal.count(Event.ABORTED)
    report.seconds = time.monotonic() - began
    return report


def _fill_input(broker: Broker, sent: list[int]) -> None:
    common = {**CLIENT_SETTINGS, "bootstrap.servers": broker.bootstrap_servers}
    topics = [NewTopic(INPUT, INPUT_PARTITIONS, 1), NewTopic(OUTPUT, OUTPUT_PARTITIONS, 1)]
    admin = AdminClient(common)
    for created in admin.create_topics(topics).values():
        created.result()
    producer = Producer({**common, "enable.idempotence": True, "queue.buffering.max.messages": 10_000_000})
    for source, count in enumerate(sent):
        for number in range(count):
            producer.produce(INPUT, input_value(source, number), partition=source)
    if missing := producer.flush(60):
        raise TimeoutError(f"{missing} input records could not be written")


def _show_progress(report: Report, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{count} records, {report.kills} kills", end="", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Copy in transactions under faults, and look for what went wrong.")
    parser.add_argument("--kills", type=int, default=30, help="of the broker; workers and connections have theirs")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None, help="repeats the plan of a run (default: a new one)")
    parser.add_argument("--weaker-kills", type=int, default=6, help="kills of the setting that must fail")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    report = copy_under_faults(
        EXACTLY_ONCE, records=options.records, kills=options.kills, seed=seed, progress=_show_progress
    )
    good = report.holds and report.shows_something
    print("\n".join([f"{'ok' if good else 'FAILED'}: {report.line()}", *report.problem_lines()]), flush=True)
    shown = report.uncommitted_verdict.aborted_read > 0 and report.uncommitted_verdict.repeated > 0
    print(f"{'ok, sees them as it must' if shown else 'FAILED, was to see them'}: {report.uncommitted_line()}")
    # What goes wrong without transactions, under the same faults, is what they have put right.
    weaker = copy_under_faults(
        AT_LEAST_ONCE,
        records=options.records * options.weaker_kills // options.kills,
        kills=options.weaker_kills,
        seed=seed,
        progress=_show_progress,
    )
    repeats = weaker.verdict.repeated > 0 and weaker.verdict.lost == 0
    print(f"{'ok, repeats as it must' if repeats else 'FAILED, was to repeat'}: {weaker.line()}", flush=True)
    return 0 if good and shown and repeats else 1


if __name__ == "__main__":
    sys.exit(main())
