"""Batches of raw records, as `penstock.columns.decoding` makes them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.columns.arrow_rows import FIELDS

Headers = Sequence[tuple[str, bytes | None]]


def raw_records(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers] | None = None,
    topics: Sequence[str] | None = None,
    timestamps_ms: Sequence[int] | None = None,
    partition: int = 3,
    first_offset: int = 100,
) -> pa.RecordBatch:
    count = len(values)
    columns = {
        "key": keys or [None] * count,
        "value": values,
        "topic": topics or ["orders"] * count,
        "partition": [partition] * count,
        "offset": range(first_offset, first_offset + count),
        "timestamp": [1000 * each for each in timestamps_ms or range(count)],
        "timestampType": [0] * count,
        "headers": [[{"key": name, "value": value} for name, value in each] for each in headers or [()] * count],
    }
    arrays = [pa.array(columns[name], field.type) for name, field in FIELDS.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(FIELDS.values())))
