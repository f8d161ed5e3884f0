"""A slice of the soak: each kind of fault about once, with a new seed each time."""

from __future__ import annotations

import random

import pytest

from penstock.testing.etcd import EtcdMissingError
from tests.cluster.soak import run_soak
from tests.conftest import optional_part_missing

pytestmark = pytest.mark.cluster

FAULTS = 16


@pytest.mark.timeout(600)
def test_a_cluster_under_faults_loses_nothing_and_repeats_nothing() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    try:
        report = run_soak(faults=FAULTS, seed=seed)
    except EtcdMissingError as missing:
        optional_part_missing(str(missing))
    assert report.holds, "\n".join(report.lines())
    assert report.faults == FAULTS
    assert report.copies.transactions > 0
    assert report.commits > 0
