from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.integration.connect.workers import BROKER_CONFIG


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    with Broker(config=BROKER_CONFIG) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with Broker(config=BROKER_CONFIG) as broker:
        yield broker.bootstrap_servers
