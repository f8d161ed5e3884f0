"""Several queries of one pipeline under one supervision.

Owns the threads and how one query's end concerns the others: each is supervised by itself and restarted alone; the
first that fails for good stops the rest between two batches, and its failure is the pipeline's.

Invariant: no query runs any more when `run_together` returns or raises PipelineFailed.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Final

_POLL_S: Final = 0.1


def run_together(runs: Mapping[str, Callable[[], None]], stop: threading.Event, stop_queries: threading.Event) -> None:
    """Calls every run in a thread of its own and returns when all have ended; the keys name the threads.

    `stop` asks the pipeline to stop. `stop_queries` is what the runs watch; it is set here, by `stop` or by a failure.
    Raises what the first failed run raised.
    """
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def follow(run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as failure:  # re-raised by the thread that waits
            ended.put(failure)
        else:
            ended.put(None)

    threads = [
        threading.Thread(target=follow, args=(run,), daemon=True, name=f"query {name}") for name, run in runs.items()
    ]
    for thread in threads:
        thread.start()
    first_failure: BaseException | None = None
    waiting = len(threads)
    while waiting:
        try:
            failure = ended.get(timeout=_POLL_S)
        except queue.Empty:
            if stop.is_set():
                stop_queries.set()
            continue
        waiting -= 1
        if failure is not None:
            first_failure = first_failure or failure
            stop_queries.set()
    for thread in threads:
        thread.join()
    if first_failure is not None:
        raise first_failure
