from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from penstock.bench.load import LoadResult
from penstock.bench.measurements.transactional_produce import TransactionalProduce
from penstock.bench.metric import Unit
from penstock.bench.sizes import QUICK
from tests.unit.bench.fakes import FakePeer

SIZES = dataclasses.replace(QUICK, small_record_count=1_000, transaction_counts={1: 10, 100: 8, 500: 6})
MEASUREMENT = TransactionalProduce(SIZES)


class RunningPeer(FakePeer):
    @property
    def pid(self) -> int:
        return 1


def result(record_count: int, seconds: float) -> LoadResult:
    return LoadResult(record_count, 100, seconds, client_cpu_s=0.0, broker_cpu_s=0.0)


def test_rates_and_what_is_kept_of_the_plain_one() -> None:
    readings = MEASUREMENT._readings(
        {
            "transactions.plain": result(1_000, 1.0),
            "transactions.idempotent": result(1_000, 2.0),
            "transactions.of-500": result(3_000, 4.0),
            "transactions.of-100": result(800, 2.0),
            "transactions.of-1": result(10, 0.5),
        }
    )
    assert readings == {
        "transactions.plain.rate": 1_000,
        "transactions.idempotent.rate": 500,
        "transactions.idempotent.kept": 0.5,
        "transactions.of-500.rate": 750,
        "transactions.of-500.kept": 0.75,
        "transactions.of-100.rate": 4,
        "transactions.of-1.rate": 20,
    }
    assert set(readings) == {metric.key for metric in MEASUREMENT.metrics}


def test_rates_are_judged_and_overheads_only_shown() -> None:
    for metric in MEASUREMENT.metrics:
        assert (metric.target is None) == metric.key.endswith(".kept")
    in_transactions = [metric.key for metric in MEASUREMENT.metrics if metric.unit is Unit.TRANSACTIONS_PER_SECOND]
    assert in_transactions == ["transactions.of-1.rate", "transactions.of-100.rate"]


@pytest.mark.parametrize(
    ("share", "counts"),
    [
        (1.0, {"plain": 1_000, "idempotent": 1_000, "of-500": 3_000, "of-100": 800, "of-1": 10}),
        (0.3, {"plain": 300, "idempotent": 300, "of-500": 500, "of-100": 200, "of-1": 3}),
        (0.01, {"plain": 10, "idempotent": 10, "of-500": 500, "of-100": 100, "of-1": 1}),
    ],
)
def test_a_share_of_the_load_has_whole_transactions(share: float, counts: dict[str, int], tmp_path: Path) -> None:
    peer = RunningPeer(tmp_path)
    loads = {case.key: MEASUREMENT._load(case, peer, "topic", share) for case in MEASUREMENT._cases}
    assert {key.removeprefix("transactions."): load.record_count for key, load in loads.items()} == counts
    for load in loads.values():
        assert load.kind == ("transactions" if load.records_per_transaction else "produce")
