"""A cluster under faults: nothing acknowledged is lost, nothing appears twice, no offset shows two values.

`python -m tests.cluster.soak --faults 100 --seed S` runs it. Three brokers and an etcd of three members are real
processes. Idempotent producers write with acks=all, a reader follows, two workers copy
in transactions with their offsets inside, and one client commits offsets. One fault comes after another (`faults.py`).
After each of them writes must resume within ten seconds, and every replica must come back in sync.

Processes and threads are not under a seed's control, so a seed repeats the plan of a run and not its every byte.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, Self

from confluent_kafka import KafkaException, Producer

from penstock.core.errors import PenstockError
from penstock.protocol.error_codes import BrokerError
from penstock.testing.cluster import Cluster
from penstock.wire.client import WireClient
from tests.cluster.commits import Committer
from tests.cluster.faults import Fault, Faults, Hit, Planned, await_condition, plan
from tests.cluster.replica_files import differences
from tests.robustness.crash_clients import IDEMPOTENT, Load, read_all
from tests.robustness.crash_clients import LiveReader as LoadReader
from tests.robustness.crash_ledger import Partition
from tests.robustness.crash_ledger import Verdict as LoadVerdict
from tests.robustness.transaction_copier import CLIENT_SETTINGS, EXACTLY_ONCE, GROUP, INPUT, OUTPUT
from tests.robustness.transaction_ledger import (
    INPUT_PARTITIONS,
    OUTPUT_PARTITIONS,
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

EVENTS: Final = "events"
EVENT_PARTITIONS: Final = 6
SESSION_TIMEOUT_S: Final = 3.0
RESUME_S_MAX: Final = 10.0
_RECORDS_PER_S: Final = 1000
_INPUT_PER_S: Final = 300
_WARM_UP_S: Final = 60.0
_STUCK_S: Final = 120.0
_CONFIG: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "replica.lag.time.max.ms": "5000",
    "broker.session.timeout.ms": str(int(SESSION_TIMEOUT_S * 1000)),
}


@dataclass(slots=True)
class Report:
    """The figures of one run."""

    seed: int
    hits: Counter[tuple[Fault, str]] = field(default_factory=Counter)
    resumed_s: list[float] = field(default_factory=list)
    in_sync_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    commits: int = 0
    load: LoadVerdict = field(default_factory=LoadVerdict)
    copies: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return sum(self.hits.values())

    @property
    def holds(self) -> bool:
        return self.load.is_exactly_once and not self.load.failed and self.copies.is_exactly_once and not self.problems

    def lines(self) -> list[str]:
        load, copies = self.load, self.copies
        resumed = sorted(self.resumed_s) or [0.0]
        in_sync = sorted(self.in_sync_s) or [0.0]
        by_fault: dict[Fault, dict[str, int]] = {}
        for (fault, target), times in sorted(self.hits.items(), key=lambda each: each[0][0].value):
            by_fault.setdefault(fault, {})[target] = times
        return [
            f"seed {self.seed}: {self.faults} faults in {self.seconds:.0f} s",
            *(
                f"  {sum(hits.values())} x {fault.value}: "
                + ", ".join(f"{times} of {target}" for target, times in hits.items())
                for fault, hits in by_fault.items()
            ),
            f"idempotent producers: sent {load.sent}, acknowledged {load.acked}, found {load.found}, "
            f"failed {load.failed}; "
            f"lost {load.lost}, repeated {load.repeated}, out of order {load.out_of_order}, at another offset "
            f"{load.misplaced}, strange {load.strange}",
            f"transactions: copied {copies.copied} of {copies.sent} in {copies.transactions}; lost {copies.lost}, "
            f"repeated {copies.repeated}, torn {copies.torn}, aborted and read {copies.aborted_read}, committed and "
            f"missing {copies.committed_missing}, out of order {copies.out_of_order}, strange {copies.strange}",
            f"offset commits: {self.commits} acknowledged",
            f"writes resumed {resumed[len(resumed) // 2]:.1f} s after a heal, {resumed[-1]:.1f} s at most (all "
            f"partitions); replicas in sync after {in_sync[len(in_sync) // 2]:.1f} s, {in_sync[-1]:.1f} s at most",
            *(f"  problem: {problem}" for problem in (*copies.problems, *self.problems)),
        ]


class Input:
    """Writes the records that the workers copy, evenly, until it is stopped. Offsets are the records' numbers."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.sent = [0] * INPUT_PARTITIONS
        self.problems: list[str] = []
        self._producer = Producer(
            {
                **CLIENT_SETTINGS,
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": 600_000,
                "linger.ms": 20,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="input")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stopping.set()
        self._thread.join()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        if missing := self._producer.flush(_STUCK_S):
            self.problems.append(f"{missing} input records were never acknowledged")

    def _run(self) -> None:
        began, total = time.monotonic(), 0
        while not self._stopping.wait(0.02):
            while total < (time.monotonic() - began) * _INPUT_PER_S and len(self._producer) < 10_000:
                source = total % INPUT_PARTITIONS
                value = input_value(source, self.sent[source])
                self._producer.produce(INPUT, value, partition=source, on_delivery=self._on_delivery)
                self.sent[source] += 1
                total += 1
            self._producer.poll(0)

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self.problems.append(f"an input record was refused: {error}")


class Soak:
    """A running cluster, its clients, and the one who makes the faults."""

    def __init__(self, cluster: Cluster, report: Report, stack: ExitStack, say: Callable[[str], None]) -> None:
        servers = cluster.bootstrap_servers
        self._cluster = cluster
        self._report = report
        self._say = say
        self._journal = Journal()
        self._create_topics()
        self._faults = Faults(cluster, EVENTS, GROUP, report.seed)
        self._load = Load(servers, [EVENTS], EVENT_PARTITIONS, IDEMPOTENT, report.seed, _RECORDS_PER_S)
        stack.callback(self._load.stop)
        self._load_reader = LoadReader(servers, [EVENTS], EVENT_PARTITIONS)
        stack.callback(self._load_reader.stop)
        self._input = stack.enter_context(Input(servers))
        self._reader = stack.enter_context(LiveReader(servers))
        # A static member may be fenced by its own earlier attempt to join when all brokers are killed.
        self._workers = stack.enter_context(Workers(servers, EXACTLY_ONCE, self._journal, has_static_member=False))
        self._committer = stack.enter_context(Committer(servers, EVENTS))

    def _create_topics(self) -> None:
        with WireClient({"bootstrap.servers": self._cluster.bootstrap_servers}) as client:
            for name, partitions in (
                (EVENTS, EVENT_PARTITIONS),
                (INPUT, INPUT_PARTITIONS),
                (OUTPUT, OUTPUT_PARTITIONS),
            ):
                client.create_topic(name, partitions=partitions)

    def run(self, planned: list[Planned]) -> None:
        if not await_condition(lambda: self._reader.count > 0 and self._committer.count > 0, _WARM_UP_S):
            raise TimeoutError(f"nothing was copied in {_WARM_UP_S:.0f} s, before any fault")
        self._cluster.wait_until_in_sync()
        for number, each in enumerate(planned, start=1):
            self._make(number, each)
            self._workers.tend()
        self._finish()

    def _make(self, number: int, planned: Planned) -> None:
        hit = self._begin(planned)
        self._report.hits[planned.fault, planned.target.value if _has_target(planned.fault) else "all or etcd"] += 1
        self._say(f"{number}: {hit.what} of {' and '.join(hit.nodes)} for {planned.lasts_s:.1f} s")
        time.sleep(planned.lasts_s)
        before = dict(self._load.ledger.acked_end)
        hit.heal()
        healed = time.monotonic()
        resumed = await_condition(lambda: self._have_all_grown(before), _STUCK_S)
        self._report.resumed_s.append(time.monotonic() - healed)
        if not resumed or self._report.resumed_s[-1] > RESUME_S_MAX:
            self._report.problems.append(
                f"fault {number}, {hit.what} of {' and '.join(hit.nodes)}: writes resumed after "
                f"{self._report.resumed_s[-1]:.1f} s"
            )
        self._cluster.wait_until_in_sync(_STUCK_S)
        self._report.in_sync_s.append(time.monotonic() - healed)

    def _begin(self, planned: Planned) -> Hit:
        """A target may have no name for a moment, when its election is under way."""
        deadline = time.monotonic() + _STUCK_S
        while True:
            try:
                return self._faults.begin(planned)
            except (KeyError, PenstockError, BrokerError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _have_all_grown(self, before: dict[Partition, int]) -> bool:
        now = self._load.ledger.acked_end
        return all(now.get(partition, 0) > end for partition, end in before.items())

    def _finish(self) -> None:
        report, servers = self._report, self._cluster.bootstrap_servers
        self._say("no more faults: the clients finish")
        if missing := self._load.finish():
            report.problems.append(f"{missing} records were never acknowledged, nor refused")
        self._input.finish()
        self._committer.stop()
        sent = self._input.sent
        if not await_condition(lambda: committed_offsets(servers) == sent, _STUCK_S):
            report.problems.append(f"the copiers' offsets are {committed_offsets(servers)}, {sent} were sent")
        self._workers.finish()
        self._committer.check()
        self._judge_load()
        self._judge_copies(sent)
        report.commits = self._committer.count
        report.problems += [
            *self._load.fatal_errors, *self._load_reader.problems, *self._input.problems, *self._committer.problems,
            *self._workers.problems, *self._reader.problems,
        ]  # fmt: skip
        self._compare_replicas()

    def _judge_load(self) -> None:
        report, ledger, along = self._report, self._load.ledger, self._load_reader
        differing: Counter[Partition] = Counter()

        def visit(partition: Partition, offset: int, value: bytes) -> None:
            ledger.found(partition, offset, value)
            seen = along.seen[partition]
            differing[partition] += offset < len(seen) and seen[offset] != zlib.crc32(value)

        ends, problems = read_all(self._cluster.bootstrap_servers, [EVENTS], EVENT_PARTITIONS, visit)
        along.finish(ends)
        report.load = ledger.verdict()
        report.problems += problems
        report.problems += [
            f"{EVENTS}-{partition.number}: {count} offsets showed two values"
            for partition, count in differing.items()
            if count
        ]
        report.problems += [
            f"{EVENTS}-{partition.number} ends at {ends[partition]}, and {end} was acknowledged"
            for partition, end in ledger.acked_end.items()
            if ends[partition] < end
        ]

    def _judge_copies(self, sent: list[int]) -> None:
        servers, report = self._cluster.bootstrap_servers, self._report
        committed = read_everything(servers, READ_COMMITTED)
        uncommitted = read_everything(servers, READ_UNCOMMITTED)
        self._reader.await_count(sum(len(records) for records in committed.values()))
        report.copies = judge(sent, committed, uncommitted, self._journal)
        report.problems += compare_views(self._reader.seen, committed, self._reader.first_seen_ns, self._journal)

    def _compare_replicas(self) -> None:
        cluster = self._cluster
        cluster.wait_until_in_sync(_STUCK_S)
        # Followers that are in sync may lack the last marker for a moment: a controlled shutdown waits for nothing that
        # clients do, so that all logs end alike once the leaders' ends have been fetched.
        time.sleep(1.0)
        for number in cluster.broker_ids:
            cluster.kill(number)
        for topic, partitions in ((EVENTS, EVENT_PARTITIONS), (INPUT, INPUT_PARTITIONS), (OUTPUT, OUTPUT_PARTITIONS)):
            for index in range(partitions):
                name = f"{topic}-{index}"
                directories = {number: cluster.broker(number).data_dir / name for number in cluster.broker_ids}
                self._report.problems += differences(name, directories)


def _has_target(fault: Fault) -> bool:
    return fault not in (Fault.KILL_ALL, Fault.ETCD_KILL, Fault.ETCD_PAUSE)


def run_soak(
    *, faults: int, seed: int, etcd_members: int = 3, say: Callable[[str], None] = lambda _line: None
) -> Report:
    """One whole run on a cluster of its own."""
    began = time.monotonic()
    report = Report(seed)
    with Cluster(brokers=3, config=_CONFIG, etcd_members=etcd_members) as cluster, ExitStack() as stack:
        try:
            Soak(cluster, report, stack, say).run(plan(faults, seed, SESSION_TIMEOUT_S))
        except (TimeoutError, KafkaException, PenstockError, BrokerError) as failure:
            report.problems.append(f"{type(failure).__name__}: {failure}")
            for number in cluster.broker_ids:
                said = cluster.broker(number).stderr_text()
                report.problems.append(f"broker {number} said at the end:\n{said[-3000:]}")
    report.seconds = time.monotonic() - began
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description="A cluster under faults; looks for what was lost, repeated or stuck.")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="repeats the plan of a run (default: a new one)")
    parser.add_argument("--etcd-members", type=int, default=3)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", file=sys.stderr, flush=True)

    report = run_soak(faults=options.faults, seed=seed, etcd_members=options.etcd_members, say=say)
    print("\n".join([f"{'ok' if report.holds else 'FAILED'}: {report.lines()[0]}", *report.lines()[1:]]), flush=True)
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
