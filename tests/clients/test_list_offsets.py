"""Clients find offsets: the first, the next, and those for a point in time."""

from __future__ import annotations

import pytest

from tests.clients.conftest import NewTopic
from tests.clients.interface import EARLIEST, LATEST, MAX_TIMESTAMP, KafkaClient
from tests.clients.records import BASE_TIMESTAMP_MS, Record, numbered

pytestmark = pytest.mark.clients


@pytest.fixture
def filled_topic(reference: KafkaClient, new_topic: NewTopic) -> str:
    """Offsets 2 to 11 are there, a second apart in time; 0 and 1 were deleted; the third last is the latest in time."""
    topic = new_topic()
    records = numbered(11, first_timestamp_ms=BASE_TIMESTAMP_MS)
    records.insert(9, Record(b"latest", b"", timestamp_ms=BASE_TIMESTAMP_MS + 60_000))
    reference.produce(topic, 0, records)
    reference.delete_records(topic, 0, 2)
    return topic


@pytest.mark.feature("list offsets, earliest")
def test_earliest(client: KafkaClient, filled_topic: str) -> None:
    assert client.list_offset(filled_topic, 0, EARLIEST) == 2


@pytest.mark.feature("list offsets, latest")
def test_latest(client: KafkaClient, filled_topic: str) -> None:
    assert client.list_offset(filled_topic, 0, LATEST) == 12


@pytest.mark.feature("list offsets, by timestamp")
def test_by_timestamp(client: KafkaClient, filled_topic: str) -> None:
    assert client.list_offset(filled_topic, 0, BASE_TIMESTAMP_MS + 5000) == 5
    assert client.list_offset(filled_topic, 0, BASE_TIMESTAMP_MS + 5001) == 6
    assert client.list_offset(filled_topic, 0, BASE_TIMESTAMP_MS + 20_000) == 9


@pytest.mark.feature("list offsets, after the last timestamp")
def test_after_the_last_timestamp(client: KafkaClient, filled_topic: str) -> None:
    assert client.list_offset(filled_topic, 0, BASE_TIMESTAMP_MS + 60_001) is None


@pytest.mark.feature("list offsets, max timestamp")
def test_max_timestamp(client: KafkaClient, filled_topic: str) -> None:
    assert client.list_offset(filled_topic, 0, MAX_TIMESTAMP) == 9
