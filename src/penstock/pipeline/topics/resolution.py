"""From what the options say to offsets of partitions, by asking the cluster.

Owns late answers too: a leader that has just been elected may still tell of an end that lies before what was already
read, so what looks like lost data is asked for again before it is believed.

`TopicCluster` is all that reading needs of a cluster; `wire_cluster.py` is it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.errors import InvalidOption, TopicSourceError, UnknownTopicError
from penstock.pipeline.topics.offsets import Offsets
from penstock.pipeline.topics.options import SourceOptions
from penstock.pipeline.topics.positions import (
    EARLIEST,
    LATEST,
    Assign,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Position,
    Selection,
    Subscribe,
)

TOPICS_MAX_AGE_MS: Final = 1000
"""New partitions, and new topics that match a pattern, are noticed after this time at the latest."""


class TopicCluster(Protocol):
    """Offsets are found for those partitions that exist; the others are missing from the answer."""

    def topics(self, selection: Selection, *, max_age_ms: int = 0) -> Mapping[str, TopicLayout]:
        """Those that exist, as they were at most so long ago."""

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]: ...
    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]: ...

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """None where every record is older."""

    def wait_for_records(self, ends: Offsets, timeout_ms: int) -> None:
        """Returns when a partition has grown beyond its end, or the time is up."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TopicLayout:
    topic_id: bytes
    """Tells a topic from its successor of the same name."""
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The end of every partition that the options select."""

    topic_ids: Mapping[str, bytes]
    latest: Offsets


def selected(selection: Selection, topics: Mapping[str, TopicLayout]) -> frozenset[TopicPartition]:
    there = frozenset(TopicPartition(topic, index) for topic, layout in topics.items() for index in layout.partitions)
    return there & selection.partitions if isinstance(selection, Assign) else there


def require_all(selection: Selection, topics: Mapping[str, TopicLayout]) -> None:
    """At its start a query wants what it names; a pattern may match nothing yet."""
    if isinstance(selection, Subscribe):
        missing = [topic for topic in selection.topics if topic not in topics]
        if missing:
            raise UnknownTopicError(f"subscribe: no such topic: {', '.join(missing)}; create it, or correct the name")
    if isinstance(selection, Assign):
        absent = sorted(selection.partitions - selected(selection, topics))
        if absent:
            raise UnknownTopicError(f"assign: no such partition: {', '.join(map(str, absent))}")


def snapshot(cluster: TopicCluster, selection: Selection, *, max_age_ms: int = 0) -> Snapshot:
    topics = cluster.topics(selection, max_age_ms=max_age_ms)
    latest = cluster.latest(selected(selection, topics))
    return Snapshot({topic: layout.topic_id for topic, layout in topics.items()}, latest)


def believable_snapshot(
    cluster: TopicCluster, options: SourceOptions, known: Offsets, sleep: Callable[[float], None] = time.sleep
) -> Snapshot:
    """A snapshot; asked for again, a few times, while it lacks a known partition or lies before a known offset."""
    found = snapshot(cluster, options.selection, max_age_ms=TOPICS_MAX_AGE_MS)
    for _ in range(options.offset_attempts - 1):
        if all(found.latest.get(partition, -1) >= offset for partition, offset in known.items()):
            break
        sleep(options.offset_retry_interval_ms / 1000)
        found = snapshot(cluster, options.selection)
    return found


def resolve(
    cluster: TopicCluster,
    partitions: Collection[TopicPartition],
    position: Position,
    options: SourceOptions,
    *,
    is_start: bool,
) -> dict[TopicPartition, int]:
    """The offsets of a position, for exactly these partitions."""
    prefix = "starting" if is_start else "ending"
    match position:
        case Earliest():
            unresolved = dict.fromkeys(partitions, EARLIEST)
        case Latest():
            unresolved = dict.fromkeys(partitions, LATEST)
        case AtOffsets(offsets):
            _check_same(f"{prefix}Offsets", partitions, offsets, "; use -1 for latest and -2 for earliest")
            unresolved = dict(offsets)
        case AtTimestamps(timestamps):
            _check_same(f"{prefix}OffsetsByTimestamp", partitions, timestamps, "")
            unresolved = _at_timestamps(cluster, timestamps, options, is_start=is_start)
        case AtTimestamp(timestamp):
            everywhere = dict.fromkeys(partitions, timestamp)
            unresolved = _at_timestamps(cluster, everywhere, options, is_start=is_start)
    earliest = cluster.earliest([partition for partition, offset in unresolved.items() if offset == EARLIEST])
    latest = cluster.latest([partition for partition, offset in unresolved.items() if offset == LATEST])
    resolved = {partition: offset for partition, offset in unresolved.items() if offset >= 0} | earliest | latest
    unanswered = sorted(set(partitions) - resolved.keys())
    if unanswered:
        raise TopicSourceError(
            f"{', '.join(map(str, unanswered))} vanished while the offsets were looked up; start again"
        )
    return resolved


def _at_timestamps(
    cluster: TopicCluster, timestamps_ms: Mapping[TopicPartition, int], options: SourceOptions, *, is_start: bool
) -> dict[TopicPartition, int]:
    found = cluster.at_timestamps(timestamps_ms)
    offsets: dict[TopicPartition, int] = {}
    for partition, timestamp in timestamps_ms.items():
        offset = found.get(partition)
        if offset is None and is_start and options.without_match == "error":
            raise InvalidOption(
                f"no record of {partition} has a timestamp of {timestamp} or later; choose an earlier one, or set "
                "startingOffsetsByTimestampStrategy to latest"
            )
        offsets[partition] = LATEST if offset is None else offset
    return offsets


def _check_same(
    name: str, partitions: Collection[TopicPartition], given: Collection[TopicPartition], remedy: str
) -> None:
    missing, unknown = sorted(set(partitions) - set(given)), sorted(set(given) - set(partitions))
    if missing:
        raise InvalidOption(f"{name} must name every partition; {', '.join(map(str, missing))} is missing{remedy}")
    if unknown:
        raise InvalidOption(f"{name} names {', '.join(map(str, unknown))}, which is not among the partitions read")
