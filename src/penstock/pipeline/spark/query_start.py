"""Starts the queries of a process one after the other.

When the first stream of a Python data source begins, Spark adds environment variables to a map that belongs to the
data source and to all of its streams, without a lock. Two streams that begin at once corrupt the map, and from then on
no task of the data source can be serialized ("Illegal size 5 of collection, expected 6"). Later streams only replace
values. So a query begins when the one before it has asked its sources for offsets, which is behind that moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# What Spark says of a query that has not asked its sources yet, or is asking them.
_BEGINNING: Final = ("Initializing", "Getting offsets")
# Brokers that do not answer keep a query there; the map is complete before they are asked.
_WAIT_S_MAX: Final = 10.0
_POLL_S: Final = 0.01
_starting: Final = threading.Lock()


def start_query(start: Callable[[], StreamingQuery], wait_s_max: float = _WAIT_S_MAX) -> StreamingQuery:
    with _starting:
        query = start()
        deadline = time.monotonic() + wait_s_max
        while query.isActive and _is_beginning(query) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return query


def _is_beginning(query: StreamingQuery) -> bool:
    return str(query.status["message"]).startswith(_BEGINNING)
