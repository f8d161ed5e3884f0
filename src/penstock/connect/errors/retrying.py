"""Converters and transforms whose outside system is away or busy are tried again (KIP-298).

An operation that raises RetriableError is repeated as `errors.retry.timeout` and `errors.retry.delay.max.ms` say. When
they allow no more, its records have failed, and `errors.tolerance` decides about them. A source's `read` and a sink's
`put` are not among these operations: as in Kafka Connect, they are repeated until they succeed, which the worker does.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import pyarrow as pa

from penstock.connect.connector import RetriableError
from penstock.connect.converters.configured import Converters
from penstock.connect.converters.converter import FromTopic, ToTopic
from penstock.connect.data.records import CONNECT_ERRORS, Column, Failure
from penstock.connect.errors.retries import RetryPolicy

RETRIABLE_EXCEPTION: Final = f"{CONNECT_ERRORS}.RetriableException"
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Retrying:
    policy: RetryPolicy
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def __call__(self, operation: Callable[[], Result]) -> Result:
        """Raises the RetriableError of the last attempt."""
        started_ms = self._now_ms()
        attempt = 0
        while True:
            try:
                return operation()
            except RetriableError:
                attempt += 1
                delay_ms = self.policy.delay_ms(attempt, started_ms, self._now_ms(), self.chance())
                if delay_ms is None:
                    raise
                self.sleep(delay_ms / 1000)

    def _now_ms(self) -> int:
        return round(self.clock() * 1000)


def failure_of(rows: list[int], error: RetriableError) -> Failure:
    return Failure(rows, str(error), RETRIABLE_EXCEPTION, error)


def retried(converters: Converters, retrying: Retrying) -> Converters:
    parts: dict[str, Any] = {name: _Retried(getattr(converters, name), retrying) for name in ("key", "value", "header")}
    return replace(converters, **parts)


class _Retried:
    """A converter, or a converter of headers, whose first argument is a name."""

    def __init__(self, converter: Any, retrying: Retrying) -> None:
        self._converter = converter
        self._retrying = retrying

    def to_connect(self, topics: Any, payloads: pa.Array) -> FromTopic:
        try:
            found: FromTopic = self._retrying(lambda: self._converter.to_connect(topics, payloads))
        except RetriableError as error:
            return FromTopic((), (failure_of(list(range(len(payloads))), error),))
        return found

    def from_connect(self, topics: Any, column: Column) -> ToTopic:
        try:
            made: ToTopic = self._retrying(lambda: self._converter.from_connect(topics, column))
        except RetriableError as error:
            count = len(column.values)
            return ToTopic(pa.nulls(count, pa.binary()), (failure_of(list(range(count)), error),))
        return made
