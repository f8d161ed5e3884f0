"""What topics hold, for `penstock topic describe`: offsets, records and bytes of each partition.

Invariant: a value that a broker does not tell is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cli.connection import wire_connected
from penstock.client.admin import Admin
from penstock.core.errors import ClientError, ProtocolError
from penstock.core.ids import TopicPartition
from penstock.protocol.error_codes import BrokerError


@dataclass(frozen=True, slots=True)
class PartitionContents:
    start_offset: int | None
    end_offset: int | None
    size_bytes: int | None

    @property
    def records(self) -> int | None:
        """The offsets in use; transaction markers and compacted records count, because offsets tell no more."""
        if self.start_offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.start_offset


UNKNOWN_CONTENTS = PartitionContents(None, None, None)


def contents_of(
    admin: Admin, configuration: Mapping[str, Any], partitions: list[TopicPartition]
) -> dict[TopicPartition, PartitionContents]:
    """`configuration` is that of the admin client."""
    try:
        starts, ends = admin.offsets(partitions, "earliest"), admin.offsets(partitions, "latest")
    except ClientError:
        # A partition without a leader must not hide what is known about the others.
        starts, ends = {}, {}
    sizes = _sizes(configuration)
    return {
        partition: PartitionContents(starts.get(partition), ends.get(partition), sizes.get(partition))
        for partition in partitions
    }


def _sizes(configuration: Mapping[str, Any]) -> Mapping[TopicPartition, int]:
    """librdkafka has no DescribeLogDirs; the wire client does. Empty if a broker refuses it or does not know it."""
    try:
        with wire_connected(configuration) as client:
            return client.partition_sizes()
    except (ClientError, BrokerError, ProtocolError):
        return {}
