"""Requests that are well-formed and wrong: Kafka's own error code for each, and nothing is harmed.

The table is tried on this broker, and with `--broker apache-kafka` on Apache Kafka, which is how it is known to be
right. Where the two differ on purpose, DELIBERATE says what Apache Kafka answers, and why this broker does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from penstock.protocol.definitions.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.error_codes import ErrorCode as E
from penstock.testing import Broker
from tests.conftest import RunningBroker
from tests.record_batches import Record, encode_batch
from tests.robustness.bad_admin_requests import CLUSTER_CASES, CONFIG_CASES, CREATE_CASES, TOPIC_CASES
from tests.robustness.bad_record_requests import FETCH_CASES, OFFSET_CASES, PRODUCE_CASES
from tests.robustness.bad_requests import NO_ANSWER, Case, Outcome, Target

CASES: Final = (
    *PRODUCE_CASES,
    *FETCH_CASES,
    *OFFSET_CASES,
    *CREATE_CASES,
    *TOPIC_CASES,
    *CONFIG_CASES,
    *CLUSTER_CASES,
)

NEVER_OPENED: Final = "this broker never opens a record that it need not open: the header and its CRC are checked"
NOT_FORESEEN: Final = "Apache Kafka meets an exception that it does not foresee; this broker says what is wrong"
NOT_VERIFIABLE: Final = "Apache Kafka says that it could not ask the coordinator; here the coordinator was asked"

DELIBERATE: Final[Mapping[str, tuple[Outcome, str]]] = {
    "produce: no records": (NO_ANSWER, NOT_FORESEEN),
    "produce: a byte too many": (E.NONE, "Apache Kafka passes over it; bytes that are not stored are not acknowledged"),
    "produce: batch length 2^31-1": (E.UNKNOWN_SERVER_ERROR, NOT_FORESEEN),
    "produce: count and delta agree on too many": (E.INVALID_RECORD, NEVER_OPENED),
    "produce: compression 5": (E.UNKNOWN_SERVER_ERROR, NOT_FORESEEN),
    "produce: compression 7": (E.UNKNOWN_SERVER_ERROR, NOT_FORESEEN),
    "produce: no gzip under the gzip flag": (E.UNKNOWN_SERVER_ERROR, NEVER_OPENED),
    "produce: a record longer than its batch": (E.INVALID_RECORD, NEVER_OPENED),
    "produce: a producer without an epoch": (E.NONE, "without an epoch nothing protects a producer from its past"),
    "produce: transactional without a transaction": (E.NOT_ENOUGH_REPLICAS, NOT_VERIFIABLE),
    "fetch: less than no room": (E.UNKNOWN_SERVER_ERROR, NOT_FORESEEN),
    "fetch: isolation level 7": (E.UNKNOWN_SERVER_ERROR, NOT_FORESEEN),
    "grow: to 2^31-1": (E.UNKNOWN_SERVER_ERROR, NOT_FORESEEN),
    "alter: operation 9": (E.UNKNOWN_SERVER_ERROR, NOT_FORESEEN),
}


@pytest.fixture(scope="module")
def target(broker_under_test: RunningBroker) -> Target:
    return Target(broker_under_test.bootstrap_servers)


def shown(outcome: Outcome) -> str:
    return outcome if isinstance(outcome, str) else E(outcome).name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_is_kafkas(case: Case, target: Target, broker_name: str) -> None:
    expected = case.expected
    if broker_name == "apache-kafka" and case.name in DELIBERATE:
        expected, _ = DELIBERATE[case.name]
    assert shown(case.ask(target)) == shown(expected)


def test_every_deliberate_difference_is_one() -> None:
    cases = {case.name: case for case in CASES}
    assert len(cases) == len(CASES)
    for name, (outcome, reason) in DELIBERATE.items():
        assert cases[name].expected != outcome
        assert reason


def test_what_is_refused_is_not_stored(target: Target, broker_name: str) -> None:
    """A good batch, every bad one, and a good batch again: the good ones get neighbouring offsets."""
    refused = [case for case in PRODUCE_CASES if case.expected != E.NONE]
    before = target.end_offset()
    assert target.produce(encode_batch([Record(b"before")])) == E.NONE
    for case in refused:
        if broker_name == "penstock" or case.name not in DELIBERATE:
            case.ask(target)
    assert target.produce(encode_batch([Record(b"after")])) == E.NONE
    assert target.end_offset() == before + 2


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("retention.mss", "5", "retention.ms"),
        ("cleanup.polcy", "compact", "cleanup.policy"),
        ("retention.ms", "soon", "retention.ms"),
        ("compression.type", "brotli", "gzip"),
    ],
)
def test_the_message_says_what_would_be_right(penstock_broker: Broker, name: str, value: str, named: str) -> None:
    """Apache Kafka names only what is wrong."""
    target = Target(penstock_broker.bootstrap_servers)
    config = AlterableConfig(name=name, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=target.topic, configs=[config])
    (answer,) = target.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == E.INVALID_CONFIG
    assert named in answer.error_message.replace(value, "")
    assert "\n" not in answer.error_message
