"""Converters and transforms whose outside system is away: retries, and records that fail when these are over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.connect.connector import RetriableError
from penstock.connect.converters.configured import converters_of
from penstock.connect.converters.converter import FromTopic, ToTopic
from penstock.connect.converters.string import StringConverter
from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import STRING
from penstock.connect.errors.retries import RetryPolicy
from penstock.connect.errors.retrying import RETRIABLE_EXCEPTION, Retrying, retried
from penstock.connect.errors.stage import Stage
from penstock.connect.transforms.chain import build_chain

STRINGS = {f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")}
PYTHON = {
    "transforms": "look-up",
    "transforms.look-up.type": "penstock.transforms.Python",
    "transforms.look-up.function": f"{__name__}:look_up",
}
remaining = {"failures": 0}


def look_up(table: pa.Table) -> pa.Table:
    if remaining["failures"]:
        remaining["failures"] -= 1
        raise RetriableError("the service is busy")
    return table


class Time:
    def __init__(self) -> None:
        self.now_ms = 0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_ms += round(seconds * 1000)

    def retrying(self, timeout_ms: int, delay_max_ms: int = 60_000) -> Retrying:
        return Retrying(RetryPolicy(timeout_ms, delay_max_ms), lambda: self.now_ms / 1000, self.sleep, lambda: 0.5)


def failing(times: int) -> Callable[[], str]:
    left = [times]

    def operation() -> str:
        if left[0]:
            left[0] -= 1
            raise RetriableError("busy")
        return "done"

    return operation


def test_pauses_grow_until_it_succeeds() -> None:
    time = Time()
    assert time.retrying(-1)(failing(4)) == "done"
    assert time.pauses == [0.3, 0.6, 1.2, 2.4]


def test_the_timeout_ends_them() -> None:
    time = Time()
    with pytest.raises(RetriableError):
        time.retrying(1000)(failing(9))
    assert time.pauses == [0.3, 0.6, 0.1]


def test_without_a_timeout_there_are_none() -> None:
    time = Time()
    with pytest.raises(RetriableError):
        time.retrying(0)(failing(1))
    assert time.pauses == []


def group(values: list[str]) -> RecordGroup:
    count = len(values)
    return RecordGroup(
        pa.array(range(5, 5 + count), pa.int64()),
        pa.repeat("t", count),
        pa.nulls(count, pa.int32()),
        pa.nulls(count, pa.int64()),
        Column(None, pa.nulls(count)),
        Column(STRING, pa.array(values, pa.string())),
    )


def test_a_transform_is_tried_again_and_then_its_records_fail() -> None:
    chain, time = build_chain(PYTHON), Time()
    remaining["failures"] = 2
    (transformed,) = chain.apply(group(["a", "b"]), time.retrying(10_000)).groups
    assert transformed.rows.to_pylist() == [5, 6]
    remaining["failures"] = 100
    result = chain.apply(group(["a", "b"]), time.retrying(1000))
    remaining["failures"] = 0
    assert not result.groups
    (failed,) = result.failures
    assert (failed.stage, failed.executing_class) == (Stage.TRANSFORMATION, "penstock.transforms.Python")
    assert (list(failed.failure.rows), failed.failure.message) == ([5, 6], "the service is busy")
    assert failed.failure.java_class == RETRIABLE_EXCEPTION


class Registry(StringConverter):
    """Away for so many calls."""

    failures = 0

    def to_connect(self, topics: pa.Array, payloads: pa.Array) -> FromTopic:
        self._look()
        return super().to_connect(topics, payloads)

    def from_connect(self, topics: pa.Array, column: Column) -> ToTopic:
        self._look()
        return super().from_connect(topics, column)

    def _look(self) -> None:
        if self.failures:
            self.failures -= 1
            raise RetriableError("the registry is away")


@pytest.mark.parametrize("failures", [2, 100])
def test_a_converter_is_tried_again_and_then_its_records_fail(failures: int) -> None:
    registry = Registry()
    registry.configure({}, is_key=False)
    time = Time()
    value = retried(replace(converters_of(STRINGS, {}), value=registry), time.retrying(2000)).value
    registry.failures = failures
    read = value.to_connect(pa.array(["t", "t"]), pa.array([b"a", b"b"], pa.binary()))
    registry.failures = failures
    written = value.from_connect(pa.array(["t", "t"]), Column(STRING, pa.array(["a", "b"])))
    if failures == 2:
        assert read.groups[0].column.values.to_pylist() == ["a", "b"]
        assert written.payloads.to_pylist() == [b"a", b"b"]
        return
    for failure in (*read.failures, *written.failures):
        assert (list(failure.rows), failure.message) == ([0, 1], "the registry is away")
        assert failure.java_class == RETRIABLE_EXCEPTION
    assert (read.groups, written.payloads.to_pylist()) == ((), [None, None])
