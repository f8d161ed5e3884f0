"""The exception for a handler of `Consumer.run` that raises one."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.records import Record, first_offsets, next_offsets
from penstock.core.errors import ClientError


class HandlerError(ClientError):
    """The handler raised an exception: see `__cause__`. For a batch, `offset` is that of its first record."""

    def __init__(self, records: Sequence[Record], cause: Exception) -> None:
        self.topic, self.partition, self.offset = records[0].topic, records[0].partition, records[0].offset
        super().__init__(f"{_place(records)}: the handler raised {type(cause).__name__}: {cause}")


def _place(records: Sequence[Record]) -> str:
    """`topic 'a' partition 0 offset 7`; for a batch, every partition with its range of offsets."""
    first = first_offsets(records)
    parts = []
    for partition, end_offset in next_offsets(records).items():
        last = end_offset - 1
        offsets = f"offset {last}" if last == first[partition] else f"offsets {first[partition]} to {last}"
        parts.append(f"{partition} {offsets}")
    return ", ".join(parts)
