"""Record batches from tasks to the commit: in a result, or in a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.pipeline.topics.errors import TopicSinkError
from penstock.pipeline.topics.handed_over import forget_all, forget_attempt, hand_over, taken_over
from penstock.pipeline.topics.row_encoding import Chunk
from penstock.pipeline.topics.sink_options import SinkOptions, read_sink_options


def options(directory: Path | None) -> SinkOptions:
    shared = {} if directory is None else {"handOverDirectory": str(directory)}
    return read_sink_options(
        {
            "kafka.bootstrap.servers": "localhost:9092",
            "guarantee": "exactly_once",
            "transactionalId": "copies/of orders",
            **shared,
        }
    )


def chunks(sizes: Iterable[int]) -> list[Chunk]:
    return [Chunk("t", number % 3, 1, memoryview(bytes([number]) * size)) for number, size in enumerate(sizes)]


def plain(found: Iterable[Chunk]) -> list[tuple[str, int, bytes]]:
    return [(chunk.topic, chunk.partition, bytes(chunk.content)) for chunk in found]


SMALL, LARGE = [10, 20, 30], [3_000_000, 3_000_000, 10, 2_000_000]


@pytest.mark.parametrize("sizes", [[], SMALL, LARGE])
@pytest.mark.parametrize("shares_directory", [False, True])
def test_what_is_handed_over_is_taken_over(tmp_path: Path, sizes: list[int], shares_directory: bool) -> None:
    given = chunks(sizes)
    handed = hand_over(options(tmp_path if shares_directory else None), "attempt", 7, given)
    assert plain(taken_over([handed])) == plain(given)
    assert (handed.path is not None) == (shares_directory and sizes is LARGE)
    assert len(handed.content) == (0 if handed.path else sum(sizes))


def test_files_go_with_their_attempt(tmp_path: Path) -> None:
    shared = options(tmp_path)
    first, second = (hand_over(shared, name, 7, chunks(LARGE)) for name in ("first", "second"))
    forget_attempt(shared, "first")
    with pytest.raises(FileNotFoundError):
        list(taken_over([first]))
    assert plain(taken_over([second])) == plain(chunks(LARGE))
    forget_all(shared)
    assert list(tmp_path.iterdir()) == []
    forget_all(options(None))


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    handed = hand_over(options(tmp_path), "attempt", 7, chunks(LARGE))
    assert handed.path is not None
    Path(handed.path).write_bytes(b"short")
    with pytest.raises(TopicSinkError, match="is shorter than what a task wrote"):
        list(taken_over([handed]))
