"""Bursts of spoiled frames, each made from a seed and its number alone, and what must become of every frame.

What a frame is worth is decided with the broker's own header reader and codec: bytes that they can read are a request
and must be answered under its correlation id, all others must close the connection. So frames that are answered come
first, and at most one that is not comes last. Requests that would legitimately harm the neighbour or flood the disk
(another broker configuration, thousands of partitions) are drawn again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, Final

from penstock.broker.router import BY_API_KEY
from penstock.core.errors import ProtocolError
from penstock.core.limits import REQUEST_BYTES_MAX
from penstock.core.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from penstock.protocol.headers import API_VERSIONS_KEY, read_request_header
from tests.robustness.fuzz_corpus import SERVED, corpus_of, fresh_request, with_real_ids
from tests.robustness.fuzz_mutations import mutated

REQUESTS_PER_VERSION: Final = 16
FRAMES_PER_BURST_MAX: Final = 40
UNSPOILED_SHARE: Final = 0.1
FRESH_SHARE: Final = 0.1
WRONG_SIZE_SHARE: Final = 0.01
# Most mutations make bytes that are no request. Of those only some are kept, so that half of what is sent gets past the
# codec and to the handlers.
CLOSING_KEPT_SHARE: Final = 0.4
PARTITIONS_MAX: Final = 16
WAIT_MS_MAX: Final = 20
SENTINEL_CORRELATION_ID: Final = 0x5E47
_WRONG_SIZES: Final = (-1, -(2**31), 2**31 - 1, REQUEST_BYTES_MAX + 1, REQUEST_BYTES_MAX, 1 << 20)
_PRODUCE: Final = 0
_FETCH: Final = 1
# Answered when the other members of the group have done their part, which may be never.
_WAIT_FOR_OTHERS: Final = frozenset({11, 14})  # JoinGroup, SyncGroup
# Answered when what they say is in a log: OffsetCommit, Heartbeat, LeaveGroup, the transactional ones, ...
_WAIT_FOR_A_LOG: Final = frozenset({_PRODUCE, 8, 12, 13, 22, 24, 25, 26, 27, 28, 42, 47, 68})
_BROKER_RESOURCES: Final = (4, 8, 16, 32)
_QUOTAS: Final = frozenset(
    {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE, CONNECTION_CREATION_RATE}
)


class Outcome(Enum):
    """What must become of a frame."""

    ANSWERED = "answered"
    CLOSED = "closed the connection"
    SILENT = "wanted no answer"  # acks=0: nothing, or a closed connection where it failed
    PARKED = "were left waiting"  # a fetch with a long wait, or a member of a group, whose peer goes away
    UNFINISHED = "were never finished"  # fewer bytes than announced, then the end


@dataclass(frozen=True, slots=True)
class Frame:
    content: bytes
    outcome: Outcome
    api_key: int = -1
    version: int = -1
    correlation_id: int = 0
    may_wait: bool = False
    is_spoiled: bool = True
    size: int | None = None  # where another one is announced than the content has

    @property
    def bytes(self) -> bytes:
        return struct.pack(">i", len(self.content) if self.size is None else self.size) + self.content


@dataclass(slots=True)
class Burst:
    number: int
    answered: list[Frame] = field(default_factory=list)
    last: Frame | None = None

    @property
    def frames(self) -> list[Frame]:
        return self.answered if self.last is None else [*self.answered, self.last]

    @property
    def bytes(self) -> bytes:
        return b"".join(frame.bytes for frame in self.frames)

    @property
    def certain_answers(self) -> int:
        """How many answers must come even though a frame behind them closes the connection.

        All of them, unless it is the fuzzer that goes away.
        """
        if self.last is None or self.last.outcome not in (Outcome.PARKED, Outcome.UNFINISHED):
            return len(self.answered)
        waiting = (index for index, frame in enumerate(self.answered) if frame.may_wait)
        return next(waiting, len(self.answered))


class BurstMaker:
    """Set `topic_ids` as soon as they are known; they are the one thing that a seed cannot determine."""

    def __init__(
        self, seed: int, *, served: Sequence[tuple[int, int]] = SERVED, without: frozenset[int] = frozenset()
    ) -> None:
        """Requests of the APIs and versions `served` are spoiled; none is left that is a request of those `without`."""
        self._seed = seed
        self._served = served
        self._without = without
        self._corpus = corpus_of(Random(f"{seed}"), REQUESTS_PER_VERSION, served)
        self.topic_ids: Mapping[str, bytes] = {}

    def make(self, number: int) -> Burst:
        chance = Random(f"{self._seed}/{number}")
        burst = Burst(number)
        for _ in range(chance.randrange(1, FRAMES_PER_BURST_MAX)):
            frame = self._draw(chance)
            if frame.outcome is not Outcome.ANSWERED:
                burst.last = frame
                break
            burst.answered.append(frame)
        return burst

    def _draw(self, chance: Random) -> Frame:
        while True:
            is_spoiled = chance.random() >= UNSPOILED_SHARE
            frame = judged(self._request(chance, is_spoiled), is_spoiled=is_spoiled)
            if frame is None or frame.api_key in self._without:
                continue
            if frame.outcome is Outcome.CLOSED and chance.random() >= CLOSING_KEPT_SHARE:
                continue
            if chance.random() < WRONG_SIZE_SHARE:
                return _with_wrong_size(frame, chance.choice(_WRONG_SIZES))
            return frame

    def _request(self, chance: Random, is_spoiled: bool) -> bytes:
        if chance.random() < FRESH_SHARE:
            content = fresh_request(chance, *chance.choice(self._served))
        else:
            content = chance.choice(self._corpus)
        if is_spoiled:
            content = mutated(content, chance, self._corpus)
        return with_real_ids(content, self.topic_ids)


def judged(content: bytes, *, is_spoiled: bool) -> Frame | None:
    """What must become of these bytes as a frame; None where the fuzzer must not send them."""
    view = memoryview(content)
    try:
        api_key, version, correlation_id, _, position = read_request_header(view, 0, len(view))
        route = BY_API_KEY.get(api_key)
        if route is None:
            return Frame(content, Outcome.CLOSED)
        if api_key == API_VERSIONS_KEY and not route.min_version <= version <= route.max_version:
            return Frame(content, Outcome.ANSWERED, api_key, 0, correlation_id, is_spoiled=is_spoiled)
        request = route.read(version, view, position)
    except ProtocolError:
        return Frame(content, Outcome.CLOSED)
    if not _is_bearable(request):
        return None
    outcome = Outcome.ANSWERED
    may_wait = api_key in _WAIT_FOR_A_LOG
    if api_key == _PRODUCE and request.acks == 0:
        outcome = Outcome.SILENT
    if api_key == _FETCH and request.max_wait_ms > 0:
        may_wait = True
        if request.max_wait_ms > WAIT_MS_MAX:
            outcome = Outcome.PARKED
    if api_key in _WAIT_FOR_OTHERS:
        outcome = Outcome.PARKED
    return Frame(content, outcome, api_key, version, correlation_id, may_wait, is_spoiled)


def _is_bearable(request: Any) -> bool:
    if getattr(request, "validate_only", False):
        return True
    match type(request).__name__:
        case "CreateTopicsRequest":
            partitions = sum(max(topic.num_partitions, len(topic.assignments), 1) for topic in request.topics)
            return bool(partitions <= PARTITIONS_MAX)
        case "CreatePartitionsRequest":
            return all(topic.count <= PARTITIONS_MAX for topic in request.topics)
        case "AlterClientQuotasRequest":
            # A real quota of everybody would mute the neighbour, too.
            return not any(operation.key in _QUOTAS for entry in request.entries for operation in entry.ops)
        case "AlterConfigsRequest" | "IncrementalAlterConfigsRequest":
            return not any(resource.resource_type in _BROKER_RESOURCES for resource in request.resources)
    return True


def _with_wrong_size(frame: Frame, size: int) -> Frame:
    if 0 <= size <= REQUEST_BYTES_MAX:
        if size <= len(frame.content):
            return frame
        return Frame(frame.content, Outcome.UNFINISHED, size=size)
    return Frame(frame.content, Outcome.CLOSED, size=size)
