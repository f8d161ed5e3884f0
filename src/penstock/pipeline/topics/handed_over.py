"""Record batches on their way from the tasks to the commit, which alone produces them.

Where rows are not arranged, any task may hold records of any partition, and the commit is the one place that can give
them their sequences. A task's batches travel in its result, through the driver. With `handOverDirectory`, a directory
that tasks and driver share (any, on one machine), what is more than a few megabytes travels as a file there instead.

Owns those files: an attempt's live in a directory of its own, which goes when the attempt ends; what a killed driver
left goes when the next attempt begins. It must never know producers.

Invariant: nothing that a task of another attempt handed over is ever read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.errors import TopicSinkError
from penstock.pipeline.topics.row_encoding import Chunk
from penstock.pipeline.topics.sink_options import SinkOptions

THROUGH_DRIVER_BYTES_MAX: Final = 256 * 1024 * 1024
_IN_RESULT_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The batches one behind the other, in `content` or in the file at `path`."""

    extents: tuple[tuple[TopicPartition, int], ...] = ()
    content: bytes = field(default=b"", repr=False)
    path: str | None = None


def hand_over(options: SinkOptions, attempt_name: str, task_attempt_id: int, chunks: Iterable[Chunk]) -> HandedOver:
    extents: list[tuple[TopicPartition, int]] = []
    content = bytearray()
    path: Path | None = None
    with ExitStack() as opened:
        file: BinaryIO | None = None
        for chunk in chunks:
            extents.append((TopicPartition(chunk.topic, chunk.partition), len(chunk.content)))
            if file is not None:
                file.write(chunk.content)
                continue
            content += chunk.content
            if options.hand_over_directory is None:
                require_little(len(content))
            elif len(content) > _IN_RESULT_BYTES_MAX:
                # Spark may run a task twice, so a file is named after the attempt at it.
                path = _directory(options) / attempt_name / str(task_attempt_id)
                path.parent.mkdir(parents=True, exist_ok=True)
                file = opened.enter_context(path.open("wb"))
                file.write(content)
                content = bytearray()
    return HandedOver(tuple(extents), bytes(content), None if path is None else str(path))


def taken_over(handed_over: Iterable[HandedOver]) -> Iterator[Chunk]:
    for each in handed_over:
        if each.path is None:
            yield from _in_content(each)
        else:
            yield from _in_file(each, Path(each.path))


def require_little(through_driver_bytes: int) -> None:
    if through_driver_bytes > THROUGH_DRIVER_BYTES_MAX:
        raise TopicSinkError(
            f"more than {THROUGH_DRIVER_BYTES_MAX >> 20} MB for one transaction, which all go through the driver: set "
            "handOverDirectory to a directory that tasks and driver share, or write "
            "penstock.spark.repartition_by_target(df, options) instead of df, or make the batches smaller "
            "with maxOffsetsPerTrigger"
        )


def forget_attempt(options: SinkOptions, attempt_name: str) -> None:
    if options.hand_over_directory is not None:
        shutil.rmtree(_directory(options) / attempt_name, ignore_errors=True)


def forget_all(options: SinkOptions) -> None:
    """When an attempt has its epoch, nothing that earlier ones handed over can be committed any more."""
    if options.hand_over_directory is not None:
        shutil.rmtree(_directory(options), ignore_errors=True)


def _directory(options: SinkOptions) -> Path:
    assert options.hand_over_directory is not None
    assert options.transactional_id is not None
    return Path(options.hand_over_directory) / quote(options.transactional_id, safe="")


def _in_content(handed_over: HandedOver) -> Iterator[Chunk]:
    view = memoryview(handed_over.content)
    start = 0
    for (topic, partition), length in handed_over.extents:
        yield Chunk(topic, partition, 0, view[start : start + length])
        start += length


def _in_file(handed_over: HandedOver, path: Path) -> Iterator[Chunk]:
    with path.open("rb") as file:
        for (topic, partition), length in handed_over.extents:
            content = file.read(length)
            if len(content) != length:
                raise TopicSinkError(f"{path} is shorter than what a task wrote there")
            yield Chunk(topic, partition, 0, memoryview(content))
