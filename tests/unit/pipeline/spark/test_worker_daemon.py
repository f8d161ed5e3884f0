"""What a worker does between two tasks."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest

from penstock.pipeline.spark.worker_daemon import PURPOSES, Collections


def test_what_the_first_tasks_leave_is_looked_at_no_more() -> None:
    before = gc.get_freeze_count()
    collections = Collections()
    try:
        kept = [[number] for number in range(1000)]
        collections.collect()
        assert gc.get_freeze_count() >= before + len(kept)
        for _ in range(20):
            collections.collect()
        settled = gc.get_freeze_count()
        later = [[number] for number in range(1000)]
        collections.collect()
        assert gc.get_freeze_count() <= settled
        assert len(later) == len(kept)
    finally:
        gc.unfreeze()


def test_garbage_of_a_task_is_collected() -> None:
    collections = Collections()
    try:
        for _ in range(20):
            knot: list[object] = []
            knot.append(knot)
            del knot
            assert collections.collect() >= 1
    finally:
        gc.unfreeze()


PRELOADING = """
import gc, json, sys
from penstock.pipeline.spark.worker_daemon import preload
preload(sys.argv[1:])
print(json.dumps({"modules": sorted(sys.modules), "frozen": gc.get_freeze_count()}))
"""


@pytest.mark.parametrize("purposes", [(), ("functions",), ("tables",)])
def test_workers_have_imported_what_their_pipeline_needs_and_no_more(purposes: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELOADING, *purposes], capture_output=True, text=True, check=True, timeout=120
    )
    told = json.loads(done.stdout)
    assert told["frozen"] > 50_000
    assert {"pyarrow", "pyspark.worker", "pyspark_penstock"} <= set(told["modules"])
    for purpose, names in PURPOSES.items():
        if purpose in purposes:
            assert set(names) <= set(told["modules"])
        elif "tables" not in purposes:  # whose drivers import pandas by themselves
            assert not set(names) & set(told["modules"])
