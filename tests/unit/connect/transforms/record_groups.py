"""Groups of records, and what became of them, for tests of transforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import Schema
from penstock.connect.transforms.kinds import KINDS

KAFKA = "org.apache.kafka.connect.transforms."


def column(schema: Schema | None, values: Sequence[Any]) -> Column:
    return Column(schema, pa.array(values, None if schema is None else schema.arrow_type))


def group(
    value: Column, *, key: Column | None = None, topic: str = "orders", is_source: bool = False, **changes: Any
) -> RecordGroup:
    """Rows are numbered from 100, offsets from 0, timestamps from 1,700,000,000,000."""
    count = len(value.values)
    return RecordGroup(
        pa.array(range(100, 100 + count), pa.int64()),
        pa.array([topic] * count, pa.string()),
        pa.array([3] * count, pa.int32()) if "partition" not in changes else changes["partition"],
        pa.array(range(1_700_000_000_000, 1_700_000_000_000 + count), pa.int64())
        if "timestamp" not in changes
        else changes["timestamp"],
        key or Column(None, pa.nulls(count)),
        value,
        changes.get("headers", ()),
        None if is_source else pa.array(range(count), pa.int64()),
    )


def plugin(name: str, config: Mapping[str, str]) -> Any:
    """By the last part of a class name of Kafka's, or by a whole name."""
    module, _, attribute = KINDS[name if name in KINDS else KAFKA + name].partition(":")
    found = getattr(import_module(module), attribute)()
    found.configure(config)
    return found


def apply(name: str, config: Mapping[str, str], records: RecordGroup) -> StepResult:
    result: StepResult = plugin(name, config).apply(records)
    return result


def only(result: StepResult) -> RecordGroup:
    assert result.failures == ()
    (found,) = result.groups
    return found


def values(result: StepResult) -> list[Any]:
    """Of all groups, in the order of the rows."""
    pairs = [
        (row, value)
        for each in result.groups
        for row, value in zip(each.rows.to_pylist(), each.value.values.to_pylist(), strict=True)
    ]
    return [value for _row, value in sorted(pairs, key=lambda pair: pair[0])]


def failures(result: StepResult) -> dict[int, str]:
    return {row: failure.message for failure in result.failures for row in failure.rows}
