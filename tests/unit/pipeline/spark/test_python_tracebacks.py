"""The one line that is made of the traceback of a Python worker."""

from __future__ import annotations

import pytest

from penstock.core.error_table import FUNCTION_FAILED, UNEXPECTED, Retry
from penstock.pipeline.failure import classify_text
from penstock.pipeline.spark.python_tracebacks import function_failure

# As Spark 4.3 words it, with the stack of Java left out.
WORKER = """\
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/worker.py", line 4207, in invoke_udf
    func, profiler, deserializer, serializer = read_udfs(
  File "/home/ada/shares.py", line 6, in share
    return 10 // number
           ~~~^^~~~~~~~
{innermost}ZeroDivisionError: integer division or modulo by zero
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1036)
"""
LINE = "/home/ada/shares.py line 6 in share: ZeroDivisionError: integer division or modulo by zero"


@pytest.mark.parametrize(
    "innermost", ["", '  File "/venv/lib/python3.11/site-packages/pandas/core.py", line 9, in div\n    raise\n']
)
def test_the_innermost_line_of_the_author_is_named(innermost: str) -> None:
    text = WORKER.replace("{innermost}", innermost)
    assert function_failure(text) == LINE
    found = classify_text(text)
    assert (found.line, found.condition, found.retry) == (LINE, FUNCTION_FAILED, Retry.NEVER)


def test_a_traceback_that_py4j_has_escaped_is_read_too() -> None:
    assert function_failure(WORKER.replace("{innermost}", "").replace("\n", "\\n")) == LINE


@pytest.mark.parametrize(
    "text",
    [
        # A function sink runs in the driver; what it talks to may come back.
        'FOREACH_BATCH_USER_FUNCTION_ERROR: Traceback (most recent call last):\n  File "/home/ada/sink.py", line 3, in'
        " write\n    raise ValueError\nValueError: x",
        # A failure inside of a library alone.
        "PythonException: Traceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/pyspark/worker.py", line 1, in main\nEOFError: x',
    ],
)
def test_other_failures_are_left_to_others(text: str) -> None:
    assert function_failure(text) is None
    assert classify_text(text).condition == UNEXPECTED
