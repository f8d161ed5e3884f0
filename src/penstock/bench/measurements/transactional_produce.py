"""Transactions per second, and the overhead of idempotence and transactions over a plain producer.

All loads write records of the same size to a topic of one partition each, with acks=all. Small transactions measure
commits; large ones measure produce with commits in between. The share of the plain rate is reported beside the rates:
the difference to 1 is the overhead, within the same broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.bench.load import Load, LoadResult
from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_LEAST_LEVEL, Metric, Readings, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic

_ClientConfig = dict[str, str | int | bool]

_PLAIN: Final[_ClientConfig] = {"acks": "all", "enable.idempotence": False}
_IDEMPOTENT: Final[_ClientConfig] = {"acks": "all", "enable.idempotence": True}
_BATCH_BYTES: Final = 100
_DISK_OVERHEAD: Final = 1.25


@dataclass(frozen=True, slots=True)
class _Case:
    """One load; without `records_per_transaction` it uses no transactions."""

    key: str
    title: str
    record_count: int
    client_config: _ClientConfig
    records_per_transaction: int = 0
    shows_commits: bool = False
    """Its rate is transactions per second; otherwise messages per second, compared with a plain producer."""

    def whole_transactions(self, share: float) -> int:
        """The number of records of a share of the load, in whole transactions, at least one."""
        unit = self.records_per_transaction or 1
        return max(1, int(self.record_count * share) // unit) * unit


@dataclass(frozen=True, slots=True)
class TransactionalProduce:
    sizes: Sizes
    name: str = "transactions"
    title: str = "Idempotence and transactions, one partition, one client, acks=all"

    @property
    def metrics(self) -> Sequence[Metric]:
        metrics: list[Metric] = []
        for case in self._cases:
            unit = Unit.TRANSACTIONS_PER_SECOND if case.shows_commits else Unit.MESSAGES_PER_SECOND
            metrics.append(Metric(f"{case.key}.rate", case.title, unit, AT_LEAST_LEVEL))
            if self._is_compared_with_plain(case):
                metrics.append(Metric(f"{case.key}.kept", "· of the plain rate", Unit.TIMES))
        return metrics

    @property
    def disk_bytes(self) -> int:
        records = sum(case.record_count * self.sizes.small_record_bytes for case in self._cases)
        batches_and_markers = sum(self.sizes.transaction_counts.values()) * 2 * _BATCH_BYTES
        return int((records + batches_and_markers) * (1 + self.sizes.warm_up_share) * _DISK_OVERHEAD)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        results: dict[str, LoadResult] = {}
        with contestant.fresh(workbench.data_parent) as peer:
            for share, prefix in ((self.sizes.warm_up_share, "warm-up-"), (1.0, "")):
                for case in self._cases:
                    workbench.tell(f"{prefix}{case.title}")
                    topic = f"{prefix}{case.key}"
                    create_topic(peer.bootstrap_servers, topic, self.sizes.time_limit_s)
                    # The warm-up's results are overwritten.
                    results[case.key] = self._load(case, peer, topic, share).run()
        return self._readings(results)

    def _readings(self, results: dict[str, LoadResult]) -> Readings:
        readings: dict[str, float] = {}
        plain_rate = results[self._cases[0].key].records_per_second
        for case in self._cases:
            rate = results[case.key].records_per_second
            readings[f"{case.key}.rate"] = rate / case.records_per_transaction if case.shows_commits else rate
            if self._is_compared_with_plain(case):
                readings[f"{case.key}.kept"] = rate / plain_rate
        return readings

    def _is_compared_with_plain(self, case: _Case) -> bool:
        return not case.shows_commits and case != self._cases[0]

    def _load(self, case: _Case, peer: Peer, topic: str, share: float) -> Load:
        return Load(
            kind="transactions" if case.records_per_transaction else "produce",
            bootstrap_servers=peer.bootstrap_servers,
            broker_pid=peer.pid,
            topic=topic,
            record_bytes=self.sizes.small_record_bytes,
            record_count=case.whole_transactions(share),
            time_limit_s=self.sizes.time_limit_s,
            client_config=case.client_config,
            records_per_transaction=case.records_per_transaction,
        )

    @property
    def _cases(self) -> list[_Case]:
        """The first result is the plain producer's."""
        label = f"{self.sizes.small_record_bytes} B"
        count = self.sizes.small_record_count
        *small, largest = sorted(self.sizes.transaction_counts)
        cases = [
            _Case("transactions.plain", f"produce {label}, plain", count, _PLAIN),
            _Case("transactions.idempotent", f"produce {label}, idempotent", count, _IDEMPOTENT),
            self._transactional_case(largest, f"produce {label}, transactions of {largest:,} records", commits=False),
        ]
        for records in small:
            title = f"transactions of {records:,} record{'s' if records > 1 else ''} of {label}"
            cases.append(self._transactional_case(records, title, commits=True))
        return cases

    def _transactional_case(self, records: int, title: str, *, commits: bool) -> _Case:
        key = f"transactions.of-{records}"
        count = records * self.sizes.transaction_counts[records]
        return _Case(key, title, count, {"transactional.id": key}, records, commits)
