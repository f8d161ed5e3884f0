"""THE table: which APIs this broker serves, in which versions, and what else must be known of each.

ApiVersions and COMPATIBILITY.md are derived from it. The handler of an API is the file of its name in `handlers/`. It
and its message definitions are imported when the first request arrives: a broker that is never asked about
configurations never loads that code, and starts sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.broker.access import Requirement, needs
from penstock.core.acls import AclOperation, ResourceType
from penstock.core.errors import ProtocolError
from penstock.protocol.codec import reader, request_class, response_class, splicing_writer, writer
from penstock.protocol.definitions.index import APIS
from penstock.protocol.headers import begin_response, end_response, response_header_version

if TYPE_CHECKING:
    from penstock.broker.request_context import RequestContext
    from penstock.log.reader import LogSlice
    from penstock.protocol.schema import Struct

Chunk = bytes | bytearray | memoryview
Handler = Callable[[Any, "RequestContext"], Any]


class Route:
    """One API: its versions, its codec for each of them, its handler, and what the handler needs and does.

    `access`: what a client must be allowed, each requirement where it applies. The handler checks it.
    `may_park`: whether the answer may wait for something other than the disk: time, replicas, or other clients.
    `counts_own_errors`: the handler counts the errors of its answers. For all other APIs the answer is searched for
    them, which would cost too much for every produce and fetch.
    `notes`: what a version brings, and where this broker differs from Kafka. For COMPATIBILITY.md.
    """

    __slots__ = (
        "_error_fields",
        "_handle",
        "_name",
        "_readers",
        "_splices",
        "_writers",
        "access",
        "advertised_from",
        "api_key",
        "counts_own_errors",
        "max_version",
        "may_park",
        "min_version",
        "notes",
    )

    def __init__(
        self,
        api_key: int,
        name: str,
        min_version: int,
        max_version: int,
        *,
        access: tuple[Requirement, ...],
        may_park: bool = False,
        notes: str = "",
        advertised_from: int | None = None,
        splices: bool = False,
        counts_own_errors: bool = False,
    ) -> None:
        self.api_key = api_key
        self.access = access
        self.may_park = may_park
        self.notes = notes
        self.counts_own_errors = counts_own_errors
        self._error_fields: _ErrorFields | None = None
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

    def errors_in(self, response: Any) -> list[int]:
        """Every error code in the response but NONE: its own, and those of its topics, partitions or groups."""
        if self._error_fields is None:
            self._error_fields = _ErrorFields(response_class(self.api_key))
        codes: list[int] = []
        self._error_fields.collect(response, codes)
        return codes

    def failure(self, code: int) -> Any | None:
        """A response that says only that the whole request failed; None where the API has no field for that."""
        response: Any = response_class(self.api_key)()
        if not hasattr(response, "error_code"):
            return None
        response.error_code = code
        return response


class _ErrorFields:
    """Where a struct of the protocol holds error codes: in a field of its own, and in arrays of structs that do."""

    __slots__ = ("_arrays", "_has_own")

    def __init__(self, struct: type[Struct]) -> None:
        self._has_own = "error_code" in struct.FIELDS
        nested: dict[str, _ErrorFields] = {
            name: _ErrorFields(field.kind)
            for name, field in struct.FIELDS.items()
            if field.is_array and isinstance(field.kind, type)
        }
        self._arrays: dict[str, _ErrorFields] = {
            name: fields for name, fields in nested.items() if fields._has_own or fields._arrays
        }

    def collect(self, value: Any, codes: list[int]) -> None:
        if self._has_own and value.error_code:
            codes.append(value.error_code)
        for name, fields in self._arrays.items():
            for element in getattr(value, name) or ():
                fields.collect(element, codes)


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


_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
_CLUSTER: Final = ResourceType.CLUSTER
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID

_READ_TOPIC: Final = needs((_TOPIC, AclOperation.READ))
_WRITE_TOPIC: Final = needs((_TOPIC, AclOperation.WRITE))
_DESCRIBE_TOPIC: Final = needs((_TOPIC, AclOperation.DESCRIBE))
_DELETE_TOPIC: Final = needs((_TOPIC, AclOperation.DELETE))
_READ_GROUP: Final = needs((_GROUP, AclOperation.READ))
_DESCRIBE_GROUP: Final = needs((_GROUP, AclOperation.DESCRIBE))
_DELETE_GROUP: Final = needs((_GROUP, AclOperation.DELETE))
_DESCRIBE_CLUSTER: Final = needs((_CLUSTER, AclOperation.DESCRIBE))
_ALTER_CLUSTER: Final = needs((_CLUSTER, AclOperation.ALTER))
_WRITE_TRANSACTIONAL_ID: Final = needs((_TRANSACTIONAL_ID, AclOperation.WRITE))
_DESCRIBE_TRANSACTIONAL_ID: Final = needs((_TRANSACTIONAL_ID, AclOperation.DESCRIBE))

_OLD_FENCING: Final = "PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before {}"


def _configs_of_any_kind(operation: AclOperation) -> tuple[Requirement, ...]:
    return (
        needs((_TOPIC, operation), when="topics"),
        needs((_CLUSTER, operation), when="brokers, loggers, client metrics"),
        needs((_GROUP, operation), when="groups"),
    )


# fmt: off
ROUTES: Final = (
    Route(0, "produce", 3, 13, advertised_from=0, may_park=True, counts_own_errors=True,
          access=(_WRITE_TOPIC, needs((_TRANSACTIONAL_ID, AclOperation.WRITE), when="with a transactional id")),
          notes="topic ids from 13; version 0 is advertised for librdkafka before 2.1, and not served"),
    Route(1, "fetch", 4, 18, splices=True, may_park=True, counts_own_errors=True,
          access=(_READ_TOPIC, needs((_CLUSTER, AclOperation.CLUSTER_ACTION), when="replicas")),
          notes="sessions from 7, topic ids from 13, the leader with an error from 16; no preferred read replicas"),
    Route(2, "list_offsets", 1, 11, access=(_DESCRIBE_TOPIC,),
          notes="no tiered storage: the timestamps -5 and -6 find nothing"),
    Route(3, "metadata", 0, 13,
          access=(_DESCRIBE_TOPIC,
                  needs((_TOPIC, AclOperation.CREATE), (_CLUSTER, AclOperation.CREATE), when="auto-creation")),
          notes="topic ids from 12; an auto-created topic is ready with the first answer"),
    Route(8, "offset_commit", 2, 10, access=(_READ_GROUP, _READ_TOPIC),
          notes="a retention time up to 4, leader epochs from 6, topic ids from 10"),
    Route(9, "offset_fetch", 1, 10, access=(_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
          notes="stable offsets only from 7, many groups from 8, topic ids from 10"),
    Route(10, "find_coordinator", 0, 6,
          access=(needs((_GROUP, AclOperation.DESCRIBE), when="groups"),
                  needs((_TRANSACTIONAL_ID, AclOperation.DESCRIBE), when="transactions")),
          notes="many keys from 4; no coordinator for share groups"),
    Route(11, "join_group", 0, 9, access=(_READ_GROUP,), may_park=True,
          notes="a member id is required from 4, static members from 5"),
    Route(12, "heartbeat", 0, 4, access=(_READ_GROUP,)),
    Route(13, "leave_group", 0, 5, access=(_READ_GROUP,), notes="several members at once from 3"),
    Route(14, "sync_group", 0, 5, access=(_READ_GROUP,), may_park=True),
    Route(15, "describe_groups", 0, 6, access=(_DESCRIBE_GROUP,), notes="GROUP_ID_NOT_FOUND from 6"),
    Route(16, "list_groups", 0, 5,
          access=(needs((_CLUSTER, AclOperation.DESCRIBE), (_GROUP, AclOperation.DESCRIBE)),),
          notes="states from 4, types from 5"),
    Route(17, "sasl_handshake", 1, 1, access=(), notes="no messages without frames (0)"),
    Route(18, "api_versions", 0, 4, access=(), notes="features from 4; an unknown version is answered in version 0"),
    Route(19, "create_topics", 2, 7,
          access=(needs((_TOPIC, AclOperation.CREATE), (_CLUSTER, AclOperation.CREATE)),
                  needs((_TOPIC, AclOperation.DESCRIBE_CONFIGS), when="settings in the answer")),
          notes="settings in the answer from 5, topic ids from 7"),
    Route(20, "delete_topics", 1, 6, access=(_DELETE_TOPIC,), notes="topic ids from 6"),
    Route(21, "delete_records", 0, 2, access=(_DELETE_TOPIC,)),
    Route(22, "init_producer_id", 0, 5,
          access=(needs((_TRANSACTIONAL_ID, AclOperation.WRITE), when="with a transactional id"),
                  needs((_CLUSTER, AclOperation.IDEMPOTENT_WRITE), (_TOPIC, AclOperation.WRITE), when="without one")),
          notes=f"{_OLD_FENCING.format(4)}; no two-phase commit (6)"),
    Route(23, "offset_for_leader_epoch", 2, 4, access=(_DESCRIBE_TOPIC,)),
    Route(24, "add_partitions_to_txn", 0, 5,
          access=(needs((_TRANSACTIONAL_ID, AclOperation.WRITE), when="up to 3"),
                  needs((_TOPIC, AclOperation.WRITE), when="up to 3"),
                  needs((_CLUSTER, AclOperation.CLUSTER_ACTION), when="brokers, from 4")),
          notes=f"{_OLD_FENCING.format(2)}; many transactions and verification from 4"),
    Route(25, "add_offsets_to_txn", 0, 4, access=(_WRITE_TRANSACTIONAL_ID, _READ_GROUP), notes=_OLD_FENCING.format(2)),
    Route(26, "end_txn", 0, 5, access=(_WRITE_TRANSACTIONAL_ID,),
          notes=f"{_OLD_FENCING.format(2)}; every end bumps the epoch from 5"),
    Route(27, "write_txn_markers", 1, 2,
          access=(needs((_CLUSTER, AclOperation.ALTER), (_CLUSTER, AclOperation.CLUSTER_ACTION)),),
          notes="the transaction version from 2"),
    Route(28, "txn_offset_commit", 0, 5, access=(_WRITE_TRANSACTIONAL_ID, _READ_GROUP, _READ_TOPIC),
          notes="the member from 3; joins the transaction by itself from 5"),
    Route(29, "describe_acls", 1, 3, access=(_DESCRIBE_CLUSTER,), notes="SECURITY_DISABLED without an authorizer"),
    Route(30, "create_acls", 1, 3, access=(_ALTER_CLUSTER,), notes="SECURITY_DISABLED without an authorizer"),
    Route(31, "delete_acls", 1, 3, access=(_ALTER_CLUSTER,), notes="SECURITY_DISABLED without an authorizer"),
    Route(32, "describe_configs", 1, 4, access=_configs_of_any_kind(AclOperation.DESCRIBE_CONFIGS)),
    Route(33, "alter_configs", 0, 2, access=_configs_of_any_kind(AclOperation.ALTER_CONFIGS)),
    Route(34, "alter_replica_log_dirs", 1, 2, access=(_ALTER_CLUSTER,), notes="there is one log directory"),
    Route(35, "describe_log_dirs", 1, 5, access=(_DESCRIBE_CLUSTER,)),
    Route(36, "sasl_authenticate", 0, 2, access=(), notes="the session's lifetime from 1"),
    Route(37, "create_partitions", 0, 3, access=(needs((_TOPIC, AclOperation.ALTER)),)),
    Route(42, "delete_groups", 0, 2, access=(_DELETE_GROUP,)),
    Route(43, "elect_leaders", 0, 2, access=(_ALTER_CLUSTER,), notes="unclean elections from 1"),
    Route(44, "incremental_alter_configs", 0, 1, access=_configs_of_any_kind(AclOperation.ALTER_CONFIGS)),
    Route(45, "alter_partition_reassignments", 0, 1, access=(_ALTER_CLUSTER,),
          notes="the replication factor may be insisted on from 1"),
    Route(46, "list_partition_reassignments", 0, 0, access=(_DESCRIBE_CLUSTER,)),
    Route(47, "offset_delete", 0, 0, access=(_DELETE_GROUP, _READ_TOPIC)),
    Route(48, "describe_client_quotas", 0, 1, access=(needs((_CLUSTER, AclOperation.DESCRIBE_CONFIGS)),)),
    Route(49, "alter_client_quotas", 0, 1, access=(needs((_CLUSTER, AclOperation.ALTER_CONFIGS)),)),
    Route(50, "describe_user_scram_credentials", 0, 0, access=(_DESCRIBE_CLUSTER,)),
    Route(51, "alter_user_scram_credentials", 0, 0, access=(_ALTER_CLUSTER,)),
    Route(55, "describe_quorum", 0, 2, access=(_DESCRIBE_CLUSTER,), notes="the controller as the one voter"),
    Route(57, "update_features", 0, 2, access=(_ALTER_CLUSTER,), notes="features are always at their highest level"),
    Route(60, "describe_cluster", 0, 2,
          access=(needs((_CLUSTER, AclOperation.DESCRIBE), when="authorized operations"),)),
    Route(61, "describe_producers", 0, 0, access=(_READ_TOPIC,)),
    Route(64, "unregister_broker", 0, 0, access=(_ALTER_CLUSTER,), notes="a broker that is running is refused"),
    Route(65, "describe_transactions", 0, 0, access=(_DESCRIBE_TRANSACTIONAL_ID, _DESCRIBE_TOPIC)),
    Route(66, "list_transactions", 0, 2, access=(_DESCRIBE_TRANSACTIONAL_ID,),
          notes="a duration from 1, a pattern from 2"),
    Route(68, "consumer_group_heartbeat", 0, 1,
          access=(_READ_GROUP, needs((_TOPIC, AclOperation.DESCRIBE), when="topics subscribed to")),
          notes="the member's own id and a pattern from 1; a pattern needs DESCRIBE of all topics"),
    Route(69, "consumer_group_describe", 0, 1, access=(_DESCRIBE_GROUP, _DESCRIBE_TOPIC)),
    Route(74, "list_config_resources", 0, 1, access=(needs((_CLUSTER, AclOperation.DESCRIBE_CONFIGS)),),
          notes="client metrics only in 0"),
    Route(75, "describe_topic_partitions", 0, 0, access=(_DESCRIBE_TOPIC,)),
)
# fmt: on

BY_API_KEY: Final = {route.api_key: route for route in ROUTES}
