"""Which attempt of Spark's at a task this process runs. For code that must not import pyspark itself."""

from __future__ import annotations


def attempt_number() -> int:
    """0 for the first attempt, and outside of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
