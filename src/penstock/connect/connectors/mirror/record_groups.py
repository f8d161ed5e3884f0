"""Records of a mirror as groups: copied ones and its own. All are bytes, which no converter changes.

It must not know offsets or clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.converters.byte_array import OPTIONAL_BYTES, ByteArrayConverter, ByteArrayHeaderConverter
from penstock.connect.converters.configured import Converters
from penstock.connect.data.assembly import to_groups
from penstock.connect.data.records import Column, RecordGroup

_AS_BYTES: Final = Converters(ByteArrayConverter(), ByteArrayConverter(), ByteArrayHeaderConverter(), "", "", "")


def copied_groups(batch: pa.RecordBatch, topic: str, first_row: int) -> Iterator[RecordGroup]:
    """Records of a batch of `columns.decoding` for `topic`, in groups with equal names of headers.

    The first one has the number `first_row`.
    """
    for group in to_groups(batch, _AS_BYTES).groups:
        yield replace(
            group,
            rows=pc.add(group.rows, first_row),
            topic=pa.repeat(pa.scalar(topic, pa.string()), len(group)),
            offset=None,
        )


def own_group(topic: str, records: Sequence[tuple[bytes, bytes]], timestamp_ms: int) -> RecordGroup:
    """Keys and values for partition 0."""
    count = len(records)
    return RecordGroup(
        rows=pa.array(np.arange(count)),
        topic=pa.repeat(pa.scalar(topic, pa.string()), count),
        partition=pa.repeat(pa.scalar(0, pa.int32()), count),
        timestamp=pa.repeat(pa.scalar(timestamp_ms, pa.int64()), count),
        key=Column(OPTIONAL_BYTES, pa.array([key for key, _value in records], pa.binary())),
        value=Column(OPTIONAL_BYTES, pa.array([value for _key, value in records], pa.binary())),
    )


NO_RECORDS: Final = own_group("", (), 0)
