"""THE table: which APIs this broker serves, in which versions, and who handles them.

ApiVersions and COMPATIBILITY.md are derived from it. A handler and its message definitions are imported when the first
request for them arrives: a broker that nobody asks about configurations never loads that code, and starts in a blink.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ProtocolError
from penstock.protocol.codec import reader, request_class, response_class, splicing_writer, writer
from penstock.protocol.definitions.index import APIS
from penstock.protocol.headers import begin_response, end_response, response_header_version

if TYPE_CHECKING:
    from penstock.broker.request_context import RequestContext
    from penstock.log.reader import LogSlice

Chunk = bytes | bytearray | memoryview
Handler = Callable[[Any, "RequestContext"], Any]


class Route:
    """One API: its versions, its codec for each of them, and its handler."""

    __slots__ = (
        "_handle",
        "_name",
        "_readers",
        "_splices",
        "_writers",
        "advertised_from",
        "api_key",
        "max_version",
        "min_version",
    )

    def __init__(
        self,
        api_key: int,
        name: str,
        min_version: int,
        max_version: int,
        *,
        advertised_from: int | None = None,
        splices: bool = False,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version
        self.advertised_from = min_version if advertised_from is None else advertised_from
        self._name = name
        self._splices = splices  # the response carries records, which are sent from their files
        self._handle: Handler | None = None
        self._readers: dict[int, Any] = {}
        self._writers: dict[int, Any] = {}

    @property
    def name(self) -> str:
        """The API's name in the protocol's own spelling, such as `ListOffsets`."""
        return APIS[self.api_key].request.removesuffix("Request")

    @property
    def handle(self) -> Handler:
        if self._handle is None:
            self._handle = import_module(f"penstock.broker.handlers.{self._name}").handle
        return self._handle

    def read(self, version: int, frame: memoryview, position: int) -> Any:
        """The request in the frame behind its header; bytes left over break the protocol."""
        read = self._readers.get(version)
        if read is None:
            if not self.min_version <= version <= self.max_version:
                raise ProtocolError(f"{self.name} version {version} is not served here")
            read = self._readers[version] = reader(request_class(self.api_key), version)
        # Bytes behind the request are passed over, as Kafka does: librdkafka 2.16 ends a flexible Metadata request for
        # all topics with three that mean nothing.
        request, _ = read(frame, position, len(frame))
        return request

    def write(self, version: int, correlation_id: int, response: Any) -> list[Chunk | LogSlice]:
        """The response as a frame: one piece of memory, or pieces of memory with slices of files between them."""
        write = self._writers.get(version)
        if write is None:
            make: Any = splicing_writer if self._splices else writer
            write = self._writers[version] = make(response_class(self.api_key), version)
        out = bytearray()
        begin_response(out, correlation_id, response_header_version(self.api_key, version))
        if not self._splices:
            write(out, response)
            end_response(out, 0)
            return [out]
        splices: list[tuple[int, Any]] = []
        write(out, response, splices)
        end_response(out, 0, sum(len(records) for _, records in splices))
        return _interleaved(out, splices) if splices else [out]

    def failure(self, code: int) -> Any | None:
        """A response that says only that the whole request failed; None where the API has no field for that."""
        response: Any = response_class(self.api_key)()
        if not hasattr(response, "error_code"):
            return None
        response.error_code = code
        return response


def _interleaved(out: bytearray, splices: list[tuple[int, Any]]) -> list[Chunk | LogSlice]:
    chunks: list[Chunk | LogSlice] = []
    view = memoryview(out)
    start = 0
    for position, records in splices:
        if position > start:
            chunks.append(view[start:position])
        chunks.append(records)
        start = position
    if start < len(out):
        chunks.append(view[start:])
    return chunks


ROUTES: Final = (
    Route(0, "produce", 3, 13, advertised_from=0),
    Route(1, "fetch", 4, 18, splices=True),
    Route(2, "list_offsets", 1, 11),
    Route(3, "metadata", 0, 13),
    Route(8, "offset_commit", 2, 10),
    Route(9, "offset_fetch", 1, 10),
    Route(10, "find_coordinator", 0, 6),
    Route(11, "join_group", 0, 9),
    Route(12, "heartbeat", 0, 4),
    Route(13, "leave_group", 0, 5),
    Route(14, "sync_group", 0, 5),
    Route(15, "describe_groups", 0, 6),
    Route(16, "list_groups", 0, 5),
    Route(18, "api_versions", 0, 4),
    Route(19, "create_topics", 2, 7),
    Route(20, "delete_topics", 1, 6),
    Route(21, "delete_records", 0, 2),
    Route(22, "init_producer_id", 0, 5),
    Route(23, "offset_for_leader_epoch", 2, 4),
    Route(24, "add_partitions_to_txn", 0, 5),
    Route(25, "add_offsets_to_txn", 0, 4),
    Route(26, "end_txn", 0, 5),
    Route(27, "write_txn_markers", 1, 2),
    Route(28, "txn_offset_commit", 0, 5),
    Route(32, "describe_configs", 1, 4),
    Route(33, "alter_configs", 0, 2),
    Route(35, "describe_log_dirs", 1, 5),
    Route(37, "create_partitions", 0, 3),
    Route(42, "delete_groups", 0, 2),
    Route(44, "incremental_alter_configs", 0, 1),
    Route(47, "offset_delete", 0, 0),
    Route(60, "describe_cluster", 0, 2),
    Route(61, "describe_producers", 0, 0),
    Route(65, "describe_transactions", 0, 0),
    Route(66, "list_transactions", 0, 2),
    Route(68, "consumer_group_heartbeat", 0, 1),
    Route(69, "consumer_group_describe", 0, 1),
    Route(74, "list_config_resources", 0, 1),
    Route(75, "describe_topic_partitions", 0, 0),
)

BY_API_KEY: Final = {route.api_key: route for route in ROUTES}
