"""Properties of our transforms and of Kafka's: names, order, types, importance and defaults are equal."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from penstock.connect.config.definition import ConfigKey
from penstock.connect.transforms.kinds import KINDS
from tests.connect_differential.transforms.kafka_transforms import KafkaTransforms

pytestmark = pytest.mark.clients


def _default(key: ConfigKey) -> str | None:
    if key.is_required or key.default is None:
        return None
    if isinstance(key.default, bool):
        return str(key.default).lower()
    return ",".join(key.default) if isinstance(key.default, tuple) else str(key.default)


def _ours(java_class: str) -> list[dict[str, Any]]:
    module, _, name = KINDS[java_class].partition(":")
    return [
        {
            "name": key.name,
            "type": key.type.value,
            "importance": key.importance.value,
            "required": key.is_required,
            "default": _default(key),
        }
        for key in getattr(import_module(module), name).definition.keys
    ]


@pytest.mark.parametrize("java_class", sorted(name for name in KINDS if name.startswith("org.apache.kafka")))
def test_definitions_are_equal(kafka_transforms: KafkaTransforms, java_class: str) -> None:
    assert _ours(java_class) == kafka_transforms.definition(java_class)
