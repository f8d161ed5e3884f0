"""Random change events through Debezium's own transforms and through ours."""

from __future__ import annotations

from typing import Final

import pytest

from tests.connect_differential.transforms.change_events import change_events, outbox_events
from tests.connect_differential.transforms.comparison import compare
from tests.connect_differential.transforms.generator import Generator
from tests.connect_differential.transforms.kafka_transforms import KafkaTransforms

pytestmark = pytest.mark.clients

_CONFIGURATIONS_PER_RUN: Final = 16
_GROUPS_PER_CONFIGURATION: Final = 4
_RECORDS_PER_GROUP: Final = 12
_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_REFERENCES: Final = ("op", "table", "source.ts_ms", "lsn:LSN", "ts_ms", "missing", "transaction.id", "total_order")


def _unwrap(generator: Generator) -> dict[str, str]:
    config = {}
    if generator.chance(0.8):
        config["delete.tombstone.handling.mode"] = generator.random.choice(_MODES)
    for name in ("add.fields", "add.headers"):
        if generator.chance(0.5):
            config[name] = ",".join(generator.random.sample(_REFERENCES, generator.random.randint(1, 3)))
    if generator.chance(0.3):
        config["route.by.field"] = generator.random.choice(("destination", "destination", "id", "missing"))
    if generator.chance(0.3):
        config["add.fields.prefix"] = "cdc_"
    return config


def _outbox(generator: Generator) -> dict[str, str]:
    config = {}
    placements = ("type:header", "type:envelope:kind", "shard:partition", "shard:header:s", "id:envelope")
    if generator.chance(0.6):
        chosen = generator.random.sample(placements, generator.random.randint(1, 3))
        config["table.fields.additional.placement"] = ",".join(chosen)
    if generator.chance(0.3):
        config["table.field.event.timestamp"] = generator.random.choice(("at", "at", "missing", "shard"))
    if generator.chance(0.4):
        config["route.topic.replacement"] = "events.${routedByValue}"
    if generator.chance(0.4):
        config["route.tombstone.on.empty.payload"] = "true"
    if generator.chance(0.2):
        config["table.field.event.payload"] = generator.random.choice(("type", "missing"))
    if generator.chance(0.1):
        config["table.field.event.key"] = "missing"
    return config


def test_extract_new_record_state(kafka_transforms: KafkaTransforms, seed: int) -> None:
    generator = Generator(seed)
    compared = 0
    for _ in range(_CONFIGURATIONS_PER_RUN):
        groups = [change_events(generator, _RECORDS_PER_GROUP) for _ in range(_GROUPS_PER_CONFIGURATION)]
        groups.append(generator.group(_RECORDS_PER_GROUP))
        config = _unwrap(generator)
        compared += compare(kafka_transforms, "io.debezium.transforms.ExtractNewRecordState", config, groups)
    assert compared > 100


def test_outbox_event_router(kafka_transforms: KafkaTransforms, seed: int) -> None:
    generator = Generator(seed)
    compared = 0
    for _ in range(_CONFIGURATIONS_PER_RUN):
        # Debezium names the envelope after the first topic that it sees, so a run has one.
        groups = [outbox_events(generator, _RECORDS_PER_GROUP, aggregate="Order") for _ in range(2)]
        config = _outbox(generator)
        compared += compare(kafka_transforms, "io.debezium.transforms.outbox.EventRouter", config, groups)
    assert compared > 100


def test_json_payloads_are_expanded(kafka_transforms: KafkaTransforms, seed: int) -> None:
    generator = Generator(seed)
    for behaviour in ("ignore", "optional_bytes"):
        config = {"table.expand.json.payload": "true", "table.json.payload.null.behavior": behaviour}
        groups = [outbox_events(generator, _RECORDS_PER_GROUP, aggregate="Order") for _ in range(3)]
        compare(kafka_transforms, "io.debezium.transforms.outbox.EventRouter", config, groups)
