"""The records that dead letters are of: their headers, and how often they were replayed.

A letter of a connector or of `Consumer.run` has the headers of its record. A pipeline's letter has none of them; the
record itself has, while its topic keeps it, and a header of a replayed record says which attempt it is.

Owns how these are found. It must not know what becomes of a letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from penstock.client.dead_letters.letter import DeadLetter, attempt_of
from penstock.client.dead_letters.topics import DeadLetterTopics
from penstock.core import dead_letters as names
from penstock.core.ids import TopicPartition

_LETTERS_AT_A_TIME: Final = 500

_Source = tuple[TopicPartition, int]
_Headers = list[tuple[str, bytes | None]]


def completed(originals: DeadLetterTopics, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """The letters with the headers and the attempts of their records, as far as these can be read."""
    found = _original_headers(originals, letters)
    return [_with_headers(letter, found) for letter in letters]


def with_attempts(
    originals: DeadLetterTopics,
    letters: Iterable[DeadLetter],
    is_wanted: Callable[[DeadLetter], bool] = lambda _: True,
) -> Iterator[DeadLetter]:
    """All letters in their order; the attempts of those that are wanted are known. `originals` has a consumer of its
    own, because that of the letters is in the middle of them."""
    remaining = iter(letters)
    while some := list(islice(remaining, _LETTERS_AT_A_TIME)):
        unknown = [letter for letter in some if is_wanted(letter) and not letter.has_headers]
        found = _original_headers(originals, unknown)
        yield from (_with_headers(letter, found) for letter in some)


def _with_headers(letter: DeadLetter, found: Mapping[_Source | None, _Headers]) -> DeadLetter:
    headers = found.get(_source(letter))
    if headers is None:
        return letter
    own = [(name, value) for name, value in headers if name != names.REPLAY_ATTEMPT]
    return replace(letter, headers=own, attempt=max(letter.attempt, attempt_of(headers)))


def _original_headers(originals: DeadLetterTopics, letters: Iterable[DeadLetter]) -> dict[_Source | None, _Headers]:
    values: dict[_Source | None, bytes | None] = {}
    offsets: dict[TopicPartition, set[int]] = {}
    for letter in letters:
        source = _source(letter)
        if source is not None and not letter.has_headers:
            values[source] = letter.value
            offsets.setdefault(source[0], set()).add(source[1])
    found: dict[_Source | None, _Headers] = {}
    for place, offset, record in originals.records_at(offsets):
        # Another record has that offset now if the topic was created again.
        if record.value() == values[place, offset]:
            headers: Any = record.headers() or ()
            found[place, offset] = list(headers)
    return found


def _source(letter: DeadLetter) -> _Source | None:
    """Where the record was read; None if that was no topic."""
    if letter.source_topic is None or letter.source_partition is None or letter.source_offset is None:
        return None
    return TopicPartition(letter.source_topic, letter.source_partition), letter.source_offset
