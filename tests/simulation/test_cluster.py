"""A slice of the simulated cluster's seeds, that a seed repeats exactly, and that deliberate defects are found.

`make simulation` runs a thousand seeds and more; `python -m tests.simulation.soak` as many as wanted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.simulation.cluster.defects import DEFECTS, Patch, seeds_for
from tests.simulation.cluster.run import quiet, run_seed
from tests.simulation.soak import outcome_of


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


@pytest.mark.parametrize("seed", range(6))
def test_a_seed_keeps_every_promise(seed: int) -> None:
    assert run_seed(seed).acknowledged > 0


def test_the_same_seed_gives_the_same_run() -> None:
    first, again, other = run_seed(1), run_seed(1), run_seed(2)
    assert first == again
    assert first.digest != other.digest


@pytest.mark.slow
def test_a_seed_gives_the_same_run_in_another_process() -> None:
    """Sets of texts are in another order there."""
    program = "from tests.simulation.soak import outcome_of; print([outcome_of(seed).digest for seed in range(5)])"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.splitlines()[-1] == str([run_seed(seed).digest for seed in range(5)])


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_deliberate_defect_is_found(defect: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    assert any(outcome_of(seed).failure for seed in seeds_for(defect)), "no seed fails with this defect"
