from __future__ import annotations

import pytest

from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_changes import (
    ConfigOperation,
    Operation,
    change_broker_config,
    change_topic_config,
    replace_broker_config,
    replace_topic_config,
)
from penstock.metadata.config_source import BrokerLayers
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.error_codes import BrokerError, ErrorCode

INHERITED = TopicConfig.inherited(BrokerLayers())
BROKER = BrokerConfig.load()


def test_a_replacement_forgets_what_it_does_not_name() -> None:
    assert replace_topic_config([("retention.ms", "5")], INHERITED) == {"retention.ms": "5"}


def test_operations_change_only_what_they_name() -> None:
    current = {"retention.ms": "5", "segment.ms": "6", "cleanup.policy": "delete"}
    operations = [
        ConfigOperation("retention.ms", Operation.SET, "7"),
        ConfigOperation("segment.ms", Operation.DELETE, None),
        ConfigOperation("cleanup.policy", Operation.APPEND, "compact,delete"),
    ]
    changed = change_topic_config(current, operations, INHERITED)
    assert changed == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
    assert current["retention.ms"] == "5"


def test_appending_starts_from_the_default_and_subtracting_leaves_the_rest() -> None:
    appended = change_topic_config({}, [ConfigOperation("cleanup.policy", Operation.APPEND, "compact")], INHERITED)
    assert appended == {"cleanup.policy": "delete,compact"}
    subtract = [ConfigOperation("cleanup.policy", Operation.SUBTRACT, "delete")]
    assert change_topic_config(appended, subtract, INHERITED) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (ConfigOperation("retention.mss", Operation.SET, "1"), ErrorCode.INVALID_CONFIG),
        (ConfigOperation("retention.mss", Operation.DELETE, None), ErrorCode.INVALID_CONFIG),
        (ConfigOperation("retention.ms", Operation.SET, "x"), ErrorCode.INVALID_CONFIG),
        (ConfigOperation("retention.ms", Operation.SET, None), ErrorCode.INVALID_REQUEST),
        (ConfigOperation("retention.ms", Operation.APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (ConfigOperation("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST),
        (ConfigOperation("retention.ms", -1, "1"), ErrorCode.INVALID_REQUEST),
        (ConfigOperation("cleanup.policy", Operation.APPEND, "burn"), ErrorCode.INVALID_CONFIG),
        (ConfigOperation("max.compaction.lag.ms", Operation.SET, "1"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_operations_that_a_topic_refuses(operation: ConfigOperation, code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as caught:
        change_topic_config({"min.compaction.lag.ms": "2"}, [operation], INHERITED)
    assert caught.value.code is code


def test_a_name_may_come_once_only() -> None:
    twice = [
        ConfigOperation("retention.ms", Operation.SET, "1"),
        ConfigOperation("retention.ms", Operation.DELETE, None),
    ]
    with pytest.raises(BrokerError) as caught:
        change_topic_config({}, twice, INHERITED)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(BrokerError) as caught:
        replace_topic_config([("retention.ms", "1"), ("retention.ms", "2")], INHERITED)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_replacement_without_a_value_is_refused() -> None:
    with pytest.raises(BrokerError, match="null value") as caught:
        replace_topic_config([("retention.ms", None)], INHERITED)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_brokers_take_what_is_dynamic() -> None:
    assert replace_broker_config([("message.max.bytes", "5")], BROKER, per_broker=False) == {"message.max.bytes": "5"}
    set_bytes = [ConfigOperation("message.max.bytes", Operation.SET, "6")]
    assert change_broker_config({}, set_bytes, BROKER, per_broker=True) == {"message.max.bytes": "6"}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("node.id", "5", "cannot be changed while the broker runs"),
        ("message.max.byte", "5", "did you mean message.max.bytes"),
        ("message.max.bytes", "x", "message.max.bytes"),
        ("ssl.engine.factory.class", "x", "part of TLS"),
        ("controller.quorum.voters", "1@h:1", "no effect"),
        ("log.retention.ms", "0", "0 is not accepted"),
    ],
)
@pytest.mark.parametrize("per_broker", [True, False])
def test_what_brokers_refuse_is_an_invalid_request_as_in_kafka(
    name: str, value: str, message: str, per_broker: bool
) -> None:
    with pytest.raises(BrokerError, match=message) as caught:
        change_broker_config({}, [ConfigOperation(name, Operation.SET, value)], BROKER, per_broker=per_broker)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(BrokerError, match=message) as caught:
        replace_broker_config([(name, value)], BROKER, per_broker=per_broker)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
