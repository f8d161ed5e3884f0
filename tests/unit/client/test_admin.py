"""The admin client as far as it goes without a broker: Kafka's names for the binding's values."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, Uuid

from penstock.client.admin import _kafka_id, _kafka_name
from penstock.core.ids import uuid_bytes

# As `GroupState` of Apache Kafka 4 spells them.
KAFKA_STATES = {
    "Unknown",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
}


@pytest.mark.parametrize("state", list(ConsumerGroupState))
def test_a_state_has_kafkas_name(state: ConsumerGroupState) -> None:
    assert _kafka_name(state) in KAFKA_STATES


def test_a_type_has_kafkas_name() -> None:
    assert {_kafka_name(each).lower() for each in ConsumerGroupType} == {"unknown", "classic", "consumer"}


@pytest.mark.parametrize("raw", [bytes([0xFB, 0xFF] * 8), bytes(range(16)), bytes([0xFF] * 15 + [0xFE])])
def test_an_id_is_in_kafkas_alphabet(raw: bytes) -> None:
    high, low = (int.from_bytes(half, "big", signed=True) for half in (raw[:8], raw[8:]))
    text = _kafka_id(Uuid(high, low))
    assert not set(text) & set("+/=")
    assert uuid_bytes(text) == raw
