"""What a client that writes into a transaction knows of the protocol, and what it is told when it may not."""

from __future__ import annotations

from enum import IntEnum

from penstock.protocol.error_codes import BrokerError, ErrorCode


class Joining(IntEnum):
    """How the client expects its partitions to join the transaction; by the version that it speaks."""

    BEFORE_WITH_OLD_ERRORS = 0  # by AddPartitionsToTxn; Produce up to 10, TxnOffsetCommit up to 3
    BEFORE = 1  # likewise, and TRANSACTION_ABORTABLE is understood; Produce 11, TxnOffsetCommit 4
    WITH_THE_WRITE = 2  # KIP-890, part 2; Produce from 12, TxnOffsetCommit from 5


def refusal_for(error: BrokerError, joining: Joining) -> BrokerError:
    """The coordinator's error in words that the client understands."""
    if error.code == ErrorCode.PRODUCER_FENCED:
        return BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    if error.code == ErrorCode.TRANSACTION_ABORTABLE and joining is Joining.BEFORE_WITH_OLD_ERRORS:
        return BrokerError(ErrorCode.INVALID_TXN_STATE, error.message)
    return error
