"""One JVM for all transforms, and a seed that is printed when a test fails."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.connect_differential.transforms.kafka_transforms import KafkaTransforms


@pytest.fixture(scope="session")
def kafka_transforms() -> Iterator[KafkaTransforms]:
    try:
        transforms = KafkaTransforms()
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    with transforms:
        yield transforms


@pytest.fixture
def seed() -> int:
    """PENSTOCK_SEED repeats a run."""
    chosen = int(os.environ.get("PENSTOCK_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"PENSTOCK_SEED={chosen}")
    return chosen
