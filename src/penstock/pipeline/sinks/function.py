"""Rows given to a Python function of the author's, one micro-batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.pipeline.declaration.function_reference import argument_count
from penstock.pipeline.sinks.batch_functions import BatchFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def function_writer(function: Callable[..., Any]) -> BatchFunction:
    """A function of two arguments is also given the batch id, which is the same when a batch comes again."""
    takes_id = argument_count(function) > 1

    def write(rows: DataFrame, batch_id: int) -> None:
        if takes_id:
            function(rows, batch_id)
        else:
            function(rows)

    return write
