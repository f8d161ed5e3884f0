"""ListTransactions: every transactional id that the filters let through.

A state that does not exist is named in the answer and matches nothing. Versions: 0 to 2 (a duration from 1; from 2 a
pattern in RE2's syntax for the transactional id, in which `.` stands for the characters that topic names can hold).
"""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.coordinator.transaction import TransactionFilter
from penstock.core.acls import AclOperation, ResourceType
from penstock.protocol.definitions.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from penstock.protocol.error_codes import BrokerError


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    try:
        wanted = TransactionFilter(
            request.state_filters,
            request.producer_id_filters,
            request.duration_filter,
            request.transactional_id_pattern,
        )
        now_ms = context.node.now_ms()
        found = [transaction for transaction in context.node.transactions if wanted.matches(transaction, now_ms)]
    except BrokerError as error:
        return ListTransactionsResponse(error_code=error.code)
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_states,
        transaction_states=[
            TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transaction in found
            if context.access.may(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id)
        ],
    )
