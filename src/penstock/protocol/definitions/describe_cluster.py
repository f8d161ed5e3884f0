"""The messages of describe_cluster, API key 60. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class DescribeClusterRequest(Message, api_key=60, versions=(0, 2), flexible_since=0):
    include_cluster_authorized_operations: bool = wire(BOOL)
    endpoint_type: int = wire(INT8, since=1, default=1)
    include_fenced_brokers: bool = wire(BOOL, since=2)


class DescribeClusterBroker(Struct):
    broker_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable_since=0, default=None)
    is_fenced: bool = wire(BOOL, since=2)


class DescribeClusterResponse(Message, api_key=60, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    endpoint_type: int = wire(INT8, since=1, default=1)
    cluster_id: str = wire(STRING)
    controller_id: int = wire(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = array_of(DescribeClusterBroker)
    cluster_authorized_operations: int = wire(INT32, default=-2147483648)
