"""A process that runs one connector until it has caught up: for tests that kill it.

    python -m tests.pipeline.connect.worker_process '{"servers": ..., "name": ..., "config": {...}}'

When it may begin (`spark_process.py`), it runs the connector. Exit codes: 0 caught up, 1 the connector failed.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.pipeline.spark_process import SparkProcess, announce_session

if TYPE_CHECKING:
    from penstock.connect.runtime.spark_jobs import SparkJobs

_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_POLL_S: Final = 0.1


@dataclass(frozen=True)
class Work:
    servers: str
    name: str
    config: Mapping[str, str]
    worker: Mapping[str, str] = field(default_factory=dict)
    last_offset: Mapping[str, Any] = field(default_factory=dict)
    """Of a source that reads no file: the offset at which it has caught up. Without one it runs until it is killed."""


def worker_config(servers: str, more: Mapping[str, str]) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "group.id": "connect-tests",
        "offset.storage.topic": "connect-tests-offsets",
        "offset.storage.partitions": "3",
        "key.converter": _STRING,
        "value.converter": _STRING,
        **more,
    }


class WorkerProcess(SparkProcess):
    def __init__(self, work: Work, crash_directory: Path, log: Path) -> None:
        super().__init__("tests.pipeline.connect.worker_process", asdict(work), crash_directory, log)


def main() -> int:
    from penstock.connect.runtime.spark_start import worker_spark

    with worker_spark() as jobs:
        return run(Work(**json.loads(sys.argv[1])), jobs)


def run(work: Work, jobs: SparkJobs) -> int:
    from penstock.connect.connector import RetriableError
    from penstock.connect.runtime.runner import Execution, Report, State
    from penstock.connect.runtime.spark_runner import SparkRunner

    jobs.start()
    announce_session()
    runner = SparkRunner(worker_config(work.servers, work.worker), jobs)
    stop = threading.Event()
    failures = []

    def report(what: Report) -> None:
        print(what, file=sys.stderr, flush=True)
        if what.state is State.FAILED:
            failures.append(what)
            stop.set()

    execution = Execution(work.name, work.config, runner.task_count(work.name, work.config), report, stop)
    thread = threading.Thread(target=runner.run, args=(execution,))
    thread.start()
    while not stop.wait(_POLL_S):
        with suppress(RetriableError):  # a database that is being restarted
            if is_caught_up(work, runner.offsets(work.name, work.config)):
                stop.set()
    thread.join()
    return 1 if failures else 0


def is_caught_up(work: Work, offsets: object) -> bool:
    from penstock.wire.client import TopicPartition, WireClient

    if isinstance(offsets, list) and "source.cluster.bootstrap.servers" in work.config:
        return is_mirrored(work, offsets)
    if isinstance(offsets, list):
        if "file" not in work.config:
            return any(dict(offset) == work.last_offset for _partition, offset in offsets)
        size = Path(work.config["file"]).stat().st_size
        return any(offset["position"] == size for _partition, offset in offsets)
    assert isinstance(offsets, Mapping)
    topic = work.config["topics"]
    with WireClient({"bootstrap.servers": work.servers}) as client:
        partitions = [TopicPartition(topic, index) for index in client.metadata([topic]).topics[topic].partitions]
        ends = client.list_offsets(dict.fromkeys(partitions, "latest"))
    return all(offsets.get(partition, 0) == end.offset for partition, end in ends.items())


def is_mirrored(work: Work, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> bool:
    """Whether all of the one topic that a mirror copies has been copied; its source has no transactions."""
    from penstock.wire.client import TopicPartition, WireClient

    topic = work.config["topics"]
    with WireClient({"bootstrap.servers": work.config["source.cluster.bootstrap.servers"]}) as client:
        partitions = [TopicPartition(topic, index) for index in client.metadata([topic]).topics[topic].partitions]
        ends = client.list_offsets(dict.fromkeys(partitions, "latest"))
    copied = {TopicPartition(each["topic"], each["partition"]): offset["offset"] + 1 for each, offset in offsets}
    return all(copied.get(partition, 0) == end.offset for partition, end in ends.items())


if __name__ == "__main__":
    sys.exit(main())
