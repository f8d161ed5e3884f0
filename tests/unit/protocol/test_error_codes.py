"""Error codes and the exception that carries one."""

from __future__ import annotations

from penstock.protocol.error_codes import BrokerError, ErrorCode


def test_a_code_is_an_int_that_knows_whether_to_try_again() -> None:
    assert int(ErrorCode.NOT_LEADER_OR_FOLLOWER) == 6
    assert ErrorCode(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.MESSAGE_TOO_LARGE.retriable


def test_every_code_says_something_of_its_own() -> None:
    assert len({code.text for code in ErrorCode}) == len(ErrorCode) == 135
    assert all(code.text.endswith(".") for code in ErrorCode)


def test_a_broker_error_speaks_for_itself_or_for_its_code() -> None:
    assert BrokerError(ErrorCode.INVALID_CONFIG, "retention.ms is negative").message == "retention.ms is negative"
    assert BrokerError(ErrorCode.INVALID_CONFIG).message == ErrorCode.INVALID_CONFIG.text
    assert BrokerError(ErrorCode.INVALID_CONFIG).code is ErrorCode.INVALID_CONFIG
