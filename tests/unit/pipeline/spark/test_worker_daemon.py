"""What a worker does between two tasks."""

from __future__ import annotations

import gc

from penstock.pipeline.spark.worker_daemon import Collections


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
