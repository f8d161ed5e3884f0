"""What a refusal of the broker says."""

from __future__ import annotations

import pytest

from penstock.core.errors import ProducerFenced
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.errors import Right, require_success

RIGHTS = (
    Right("Write", "transactional id", "copy"),
    Right("Read", "group", "bill ing"),
    Right("Write", "topic", "orders"),
)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "topic 'orders': this client may not Write (TOPIC_AUTHORIZATION_FAILED); to allow it: "
            "penstock acl create --allow-principal User:NAME --operation Write --topic orders",
        ),
        (
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            "group 'bill ing': this client may not Read (GROUP_AUTHORIZATION_FAILED); to allow it: "
            "penstock acl create --allow-principal User:NAME --operation Read --group 'bill ing'",
        ),
        (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactional id 'copy': this client may not Write (TRANSACTIONAL_ID_AUTHORIZATION_FAILED); to allow it: "
            "penstock acl create --allow-principal User:NAME --operation Write --transactional-id copy",
        ),
    ],
)
def test_a_right_that_is_missing_is_named_with_the_command_that_grants_it(code: ErrorCode, message: str) -> None:
    with pytest.raises(BrokerError) as refused:
        require_success(code, "subject", needs=RIGHTS)
    assert str(refused.value) == message
    assert refused.value.code is code
    assert refused.value.entry.condition == "PENSTOCK_ACCESS_DENIED"


def test_other_refusals() -> None:
    require_success(0, "subject", needs=RIGHTS)
    with pytest.raises(BrokerError, match=r"subject: .* \(CLUSTER_AUTHORIZATION_FAILED\)"):
        require_success(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "subject", needs=RIGHTS)
    with pytest.raises(BrokerError, match=r"subject: why \(12345\)"):
        require_success(12345, "subject", "why", needs=RIGHTS)
    with pytest.raises(ProducerFenced):
        require_success(ErrorCode.PRODUCER_FENCED, "subject", needs=RIGHTS)
