"""Random records through Kafka's own transforms and through ours: equal results, equal failures."""

from __future__ import annotations

from typing import Final

import pytest

from tests.connect_differential.transforms.comparison import compare
from tests.connect_differential.transforms.configurations import CONFIGURATIONS
from tests.connect_differential.transforms.generator import Generator
from tests.connect_differential.transforms.kafka_transforms import KafkaTransforms

pytestmark = pytest.mark.clients

_CONFIGURATIONS_PER_RUN: Final = 12
_GROUPS_PER_CONFIGURATION: Final = 6
_RECORDS_PER_GROUP: Final = 8
_KAFKA: Final = "org.apache.kafka.connect.transforms."


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_equal_results(kafka_transforms: KafkaTransforms, seed: int, name: str) -> None:
    structs, make = CONFIGURATIONS[name]
    generator = Generator(seed, before_1582=not name.startswith("Timestamp"))
    compared = 0
    for _ in range(_CONFIGURATIONS_PER_RUN):
        config = make(generator)
        groups = [generator.group(_RECORDS_PER_GROUP, structs=structs) for _ in range(_GROUPS_PER_CONFIGURATION)]
        compared += compare(kafka_transforms, _KAFKA + name, config, groups)
    assert compared > 100
