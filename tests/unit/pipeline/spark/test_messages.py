"""What pyspark would print of its own accord, and what must not be broken by keeping it quiet."""

from __future__ import annotations

import subprocess
import sys

_LOGS_AS_PYSPARK_DOES = """
from penstock.pipeline.spark.messages import quiet_pyspark
with quiet_pyspark():
    pass
from pyspark.logger import PySparkLogger
PySparkLogger.getLogger("SQLQueryContextLogger").error("[DIVIDE_BY_ZERO] x", errorClass="DIVIDE_BY_ZERO")
"""


def test_pyspark_can_log_after_it_was_quiet() -> None:
    """In a process of its own: the class of a logger is decided by whoever asks for it first."""
    done = subprocess.run([sys.executable, "-c", _LOGS_AS_PYSPARK_DOES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "DIVIDE_BY_ZERO" in done.stderr
