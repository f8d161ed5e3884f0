"""Two producers, one transactional id, at the same time: what the older one wrote is whole and from before, or nowhere.

`python -m tests.robustness.zombie_races --races 1000` runs long; `test_transactions_zombies.py` runs a slice of it. In
every race a zombie sends and commits while its successor takes over at a random moment, in each pairing of the classic
protocol and KIP-890's. The races must be close: a run in which the zombies never lost a transaction that they had
begun to write, or never won one, shows nothing. Threads are not under a seed's control, so a seed repeats the moments
of a run and not its every byte.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.integration.broker.conversation import (
    FETCH_VERSION,
    Topic,
    batches_in,
    create_topic,
    fetch_request,
    partitions_of,
    values_of,
)
from tests.integration.broker.transaction_conversation import Transactor, committed_values
from tests.wire_client import WireClient

PARTITIONS: Final = 2
_TAKEOVER_WITHIN_S: Final = 0.01
_TRANSACTIONS_MAX: Final = 1000

# What a fenced producer may be told, depending on what it asks and on how far its fencing has got.
FENCED: Final = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which of the two speak KIP-890's protocol; the other protocol is the classic one."""

    zombie_is_new: bool
    successor_is_new: bool

    def __str__(self) -> str:
        zombie, successor = ("KIP-890" if new else "classic" for new in (self.zombie_is_new, self.successor_is_new))
        return f"{zombie} zombie, {successor} successor"


PAIRINGS: Final = tuple(Pairing(*news) for news in itertools.product((True, False), repeat=2))


@dataclass(slots=True)
class Report:
    """The figures of all races of one pairing."""

    pairing: Pairing
    races: int = 0
    lost: int = 0  # races in which the zombie was fenced in a transaction of which records had been written
    won: int = 0  # races in which the zombie had committed before it was fenced
    fenced_records: int = 0  # records of zombies that are in the log and belong to no committed transaction
    visible: int = 0  # of these, how many a `read_committed` reader is shown
    missing: int = 0  # records that were committed and that it is not shown
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not (self.visible or self.missing or self.problems)

    @property
    def is_close(self) -> bool:
        return self.lost >= self.races // 10 and self.won >= self.races // 10 and self.fenced_records > 0

    def line(self) -> str:
        figures = (
            f"{self.pairing}: {self.races} races, {self.lost} caught inside a transaction, {self.won} after a commit, "
            f"{self.fenced_records} fenced records in the log, {self.visible} of them visible, "
            f"{self.missing} committed ones missing"
        )
        return "; ".join([figures, *self.problems])


@dataclass(slots=True)
class _Zombie:
    """Commits transactions of one record for each partition until it is told that it is fenced."""

    transactor: Transactor
    topic: Topic
    name: str
    written: list[bytes] = field(default_factory=list)
    committed: list[bytes] = field(default_factory=list)
    code: int = ErrorCode.NONE

    def run(self) -> None:
        for number in range(_TRANSACTIONS_MAX):
            value = f"{self.name} {number}".encode()
            for partition in range(PARTITIONS):
                self.code = self.transactor.send(self.topic, value, partition=partition)
                if self.code:
                    return
                if partition == 0:
                    self.written.append(value)
            self.code = self.transactor.end(commits=True)
            if self.code:
                return
            self.committed.append(value)


def run_races(bootstrap_servers: str, pairing: Pairing, *, races: int, seed: int) -> Report:
    """All on one transactional id and one topic, so that every race also meets what the one before it left."""
    chance = random.Random(f"{seed} {pairing}")
    report = Report(pairing)
    transactional_id = uuid4().hex
    committed: list[bytes] = []
    with WireClient(bootstrap_servers) as zombie_client, WireClient(bootstrap_servers) as client:
        topic = create_topic(client, f"races-{uuid4().hex}", partitions=PARTITIONS)
        for race in range(races):
            begun = Transactor(zombie_client, transactional_id, new_protocol=pairing.zombie_is_new).begin_session()
            zombie = _Zombie(begun, topic, f"zombie {race}")
            thread = threading.Thread(target=zombie.run)
            thread.start()
            try:
                time.sleep(chance.random() * _TAKEOVER_WITHIN_S)
                successor = Transactor(client, transactional_id, new_protocol=pairing.successor_is_new).begin_session()
                value = f"successor {race}".encode()
                for partition in range(PARTITIONS):
                    successor.send_ok(topic, value, partition=partition)
                successor.commit()
            finally:
                thread.join()
            if zombie.code not in FENCED:
                report.problems.append(f"the zombie of race {race} was told {zombie.code}")
            committed += [*zombie.committed, value]
            report.races += 1
            report.lost += len(zombie.written) > len(zombie.committed)
            report.won += bool(zombie.committed)
        _judge(report, client, topic, committed)
    return report


def _judge(report: Report, client: WireClient, topic: Topic, committed: list[bytes]) -> None:
    for partition in range(PARTITIONS):
        seen = [value for value in committed_values(client, topic, partition=partition) if value is not None]
        expected = Counter(committed)
        in_log = Counter(_logged_values(client, topic, partition))
        report.fenced_records += (in_log - expected).total()
        report.visible += (Counter(seen) - expected).total()
        report.missing += (expected - Counter(seen)).total()
        if seen != committed and Counter(seen) == expected:
            report.problems.append(f"partition {partition} is not in the order of the commits")


def _logged_values(client: WireClient, topic: Topic, partition: int) -> list[bytes]:
    """What is in the log, whatever became of it: what a `read_uncommitted` reader sees."""
    values: list[bytes] = []
    offset = 0
    while True:
        data = partitions_of(client.ask(fetch_request(topic, {partition: offset}), FETCH_VERSION))[partition]
        for header, batch in batches_in(data):
            offset = header.end_offset
            if not header.is_control:
                values += [value for value in values_of(header, batch) if value is not None]
        if offset >= data.high_watermark:
            return values


def main() -> int:
    parser = argparse.ArgumentParser(description="Race zombies against their successors, and look for what they left.")
    parser.add_argument("--races", type=int, default=1000, help="over all pairings of the two protocols")
    parser.add_argument("--seed", type=int, default=None, help="repeats the moments of a run (default: new ones)")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    began = time.monotonic()
    reports = []
    with Broker() as broker:
        for index, pairing in enumerate(PAIRINGS):
            races = (options.races + index) // len(PAIRINGS)
            reports.append(run_races(broker.bootstrap_servers, pairing, races=races, seed=seed))
            print(reports[-1].line(), flush=True)
    good = all(report.holds and report.is_close for report in reports)
    print(
        f"{'ok' if good else 'FAILED'}: {sum(report.races for report in reports)} races with seed {seed}, "
        f"{sum(report.lost for report in reports)} of them caught a zombie inside its transaction, "
        f"{sum(report.visible for report in reports)} zombie records visible, "
        f"{sum(report.missing for report in reports)} committed records missing, {time.monotonic() - began:.0f} s"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
