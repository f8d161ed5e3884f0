"""The error codes of the Kafka protocol: number, whether a client may retry, and a default message.

Numbers and retriable flags are part of the protocol and never change; `tests/unit/protocol` compares them with kio's.
The messages are ours: clients see them where a handler has no specific one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Self

from penstock.core.error_table import ERRORS, ErrorEntry
from penstock.core.errors import PenstockError


class ErrorCode(IntEnum):
    """An `int` on the wire, so a member can be assigned to a message's `error_code`."""

    retriable: bool
    text: str

    # Hidden from type checkers, which would apply this signature to lookups such as `ErrorCode(6)`.
    if not TYPE_CHECKING:

        def __new__(cls, code, retriable, text):
            member = int.__new__(cls, code)
            member._value_ = code
            member.retriable = retriable
            member.text = text
            return member

    UNKNOWN_SERVER_ERROR = -1, False, "The broker failed with an unexpected error."
    NONE = 0, False, "No error."
    OFFSET_OUT_OF_RANGE = 1, False, "The partition holds no such offset."
    CORRUPT_MESSAGE = 2, True, "A record batch is damaged: its checksum, size or content is wrong."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker has no such topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, True, "This broker does not lead the partition, or holds no replica of it."
    REQUEST_TIMED_OUT = 7, True, "The request took longer than it was allowed to."
    BROKER_NOT_AVAILABLE = 8, False, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica is not available."
    MESSAGE_TOO_LARGE = 10, False, "A record batch is larger than the topic's max.message.bytes."
    STALE_CONTROLLER_EPOCH = 11, False, "The request carries the epoch of an earlier controller."
    OFFSET_METADATA_TOO_LARGE = 12, False, "The metadata of a committed offset is too long."
    NETWORK_EXCEPTION = 13, True, "The connection was lost before the answer arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, "There is no coordinator at the moment."
    NOT_COORDINATOR = 16, True, "This broker is not the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, False, "The topic's name is not valid, or the operation is not allowed on it."
    RECORD_LIST_TOO_LARGE = 18, False, "A record batch is larger than a log segment."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than min.insync.replicas; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "Written, but to fewer in-sync replicas than min.insync.replicas."
    INVALID_REQUIRED_ACKS = 21, False, "acks must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, False, "The group's generation is another one."
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "The member and the group have no protocol in common."
    INVALID_GROUP_ID = 24, False, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, False, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, False, "The session timeout is outside the range that the broker allows."
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing; the member must join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The offset and its metadata are too large to commit."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "The principal is not allowed to do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "The principal is not allowed to do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "The principal is not allowed to do this with the cluster."
    INVALID_TIMESTAMP = 32, False, "A record's timestamp is outside the range that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, "The request does not belong to this step of SASL authentication."
    UNSUPPORTED_VERSION = 35, False, "The broker does not know this version of the API."
    TOPIC_ALREADY_EXISTS = 36, False, "There is already a topic of this name."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, False, "The replication factor is not positive, or exceeds the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The assignment of replicas to brokers is not valid."
    INVALID_CONFIG = 40, False, "The configuration is not valid."
    NOT_CONTROLLER = 41, True, "This broker is not the controller."
    INVALID_REQUEST = 42, False, "The request can be read, but contradicts itself or the protocol's rules."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The record format on the broker cannot do this."
    POLICY_VIOLATION = 44, False, "A policy of the cluster forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "The producer's sequence does not follow the last one seen."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "The producer's sequence was already used."
    INVALID_PRODUCER_EPOCH = 47, False, "The producer's epoch is an old one."
    INVALID_TXN_STATE = 48, False, "The transaction's state does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, False, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, False, "The transaction timeout exceeds transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, True, "The producer's transaction has an operation still under way."
    TRANSACTION_COORDINATOR_FENCED = 52, False, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "The principal is not allowed to use the transactional id."
    SECURITY_DISABLED = 54, False, "The broker has no such security feature switched on."
    OPERATION_NOT_ATTEMPTED = 55, False, "Not attempted, because another part of the same request failed."
    KAFKA_STORAGE_ERROR = 56, True, "The broker could not read or write its log directory."
    LOG_DIR_NOT_FOUND = 57, False, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "The SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, False, "The partition knows nothing (any more) of this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition's replicas are already being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "The principal does not own the delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "Delegation tokens cannot be managed on this kind of connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "The principal is not allowed to do this with the token."
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "The broker does not know this type of principal."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "The broker has no such fetch session (any more)."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The fetch session's epoch is not the expected one."
    LISTENER_NOT_FOUND = 72, True, "The leader has no listener of the name that the request came by."
    TOPIC_DELETION_DISABLED = 73, False, "Topics cannot be deleted: delete.topic.enable is false."
    FENCED_LEADER_EPOCH = 74, True, "The request's leader epoch is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The request's leader epoch is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "The client's version cannot read this compression."
    STALE_BROKER_EPOCH = 77, False, "The broker's epoch is an old one."
    OFFSET_NOT_AVAILABLE = 78, True, "The new leader's high watermark has not caught up yet."
    MEMBER_ID_REQUIRED = 79, False, "The member must join again with the member id that it has just been given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group is full."
    FENCED_INSTANCE_ID = 82, False, "Another member has taken over this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica that may lead the partition is available."
    ELECTION_NOT_NEEDED = 84, True, "The partition already has the leader that an election would give it."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "The partition's replicas are not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "A member of the group is subscribed to the topic."
    INVALID_RECORD = 87, False, "The broker does not accept a record of the batch."
    UNSTABLE_OFFSET_COMMIT = 88, True, "An open transaction holds offsets of this partition."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota is used up."
    PRODUCER_FENCED = 90, False, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, False, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, False, "The request names a resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the broker's requirements."
    INCONSISTENT_VOTER_SET = 94, False, "Sender and receiver of the request disagree on the voters."
    INVALID_UPDATE_VERSION = 95, False, "The update carries a version that is not the next one."
    FEATURE_UPDATE_FAILED = 96, False, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The principal of a forwarded request cannot be read."
    SNAPSHOT_NOT_FOUND = 98, False, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This broker has no topic with this id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "Another running broker has registered under this id."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker has registered under this id."
    INCONSISTENT_TOPIC_ID = 103, True, "The topic's id in the log is not the one in the request."
    INCONSISTENT_CLUSTER_ID = 104, False, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "Topic ids and topic names cannot be mixed in one fetch session."
    INELIGIBLE_REPLICA = 107, False, "The replica may not join the in-sync set."
    NEW_LEADER_ELECTED = 108, False, "The change was made, and with it the leadership moved."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset now lies in tiered storage."
    FENCED_MEMBER_EPOCH = 110, False, "The member's epoch is fenced; it must rejoin from the start."
    UNRELEASED_INSTANCE_ID = 111, False, "Another member of the group still uses this instance id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, False, "The member's epoch is old; it must try again with the one of its next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "The broker does not know this kind of endpoint."
    UNKNOWN_CONTROLLER_ID = 116, False, "There is no controller with this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The telemetry subscription is not the current one."
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry exceeds the size that the broker accepts."
    INVALID_REGISTRATION = 119, False, "The controller does not accept the broker's registration."
    TRANSACTION_ABORTABLE = 120, False, "The transaction failed; the producer must abort it and may then go on."
    INVALID_RECORD_STATE = 121, False, "The state of a share group's record does not allow its acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, True, "The broker has no such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The share session's epoch is not the expected one."
    FENCED_STATE_EPOCH = 124, False, "The share coordinator holds a newer state epoch."
    INVALID_VOTER_KEY = 125, False, "The voter's key is not the receiver's."
    DUPLICATE_VOTER = 126, False, "The voter is already one of the voters."
    VOTER_NOT_FOUND = 127, False, "The voter is not one of the voters."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = (
        129,
        False,
        "The client's metadata is out of date; it must start again from its bootstrap servers.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, False, "The streams topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The epoch of the streams topology is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The epoch of the streams topology is an old one."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "The broker has as many share sessions as it allows."


def known_code(code: int) -> ErrorCode:
    """The code's member; UNKNOWN_SERVER_ERROR for a code of a newer broker that this table does not have."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


_DENIED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_CONDITIONS: Final = {
    **dict.fromkeys(_DENIED, "PENSTOCK_ACCESS_DENIED"),
    ErrorCode.MESSAGE_TOO_LARGE: "PENSTOCK_RECORD_TOO_LARGE",
}


class BrokerError(PenstockError):
    """An error of the protocol that clients must expect: handlers map it to `code`, per partition where there are any.

    `message` describes the specific case; the default is the message of the code.
    """

    condition = "PENSTOCK_BROKER_REFUSED"

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.text)
        self.code = code

    @property
    def message(self) -> str:
        return str(self.args[0])

    @property
    def entry(self) -> ErrorEntry:
        return ERRORS[_CONDITIONS.get(self.code, self.condition)]

    @property
    def fields(self) -> Mapping[str, str]:
        return {"kafka_error": self.code.name}

    def to_keep(self) -> Self:
        """This error without its traceback, to be stored in a list or table.

        The traceback would reference every frame up to the socket's read, and those the list: a reference cycle that
        keeps the whole request in memory until the garbage collector runs.
        """
        return self.with_traceback(None)


def response_error(code: int, subject: str, detail: str | None = None) -> BrokerError:
    """A peer's refusal. `subject` names what was refused; `detail` is the peer's own message, where it has one."""
    error = known_code(code)
    return BrokerError(error, f"{subject}: {detail or error.text} ({error.name if error == code else code})")
