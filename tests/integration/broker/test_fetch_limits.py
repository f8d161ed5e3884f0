"""How much a fetch returns: max.bytes, the one whole batch that is always returned, and the very bytes of the log."""

from __future__ import annotations

import random
import time

from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.conversation import (
    FETCH_VERSION,
    batches_in,
    fetch,
    fetch_request,
    partitions_of,
    produce_ok,
    values_in,
)
from tests.wire_client import WireClient


def test_partition_max_bytes_cuts_at_any_byte(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    values = [b"%d" % number * 200 for number in range(5)]
    for value in values:
        produce_ok(client, topic, value)
    batch_bytes = [header.size for header, _ in batches_in(fetch(client, topic))]
    limit = batch_bytes[0] + batch_bytes[1] + 30

    data = partitions_of(client.ask(fetch_request(topic, {0: 0}, partition_max_bytes=limit), FETCH_VERSION))[0]

    assert data.records is not None
    assert len(data.records) <= limit
    assert values_in(data) == values[:2]


def test_one_whole_batch_is_returned_however_small_the_limits(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce_ok(client, topic, b"a" * 5000)
    produce_ok(client, topic, b"b" * 5000)

    request = fetch_request(topic, {0: 0}, max_bytes=1, partition_max_bytes=1)
    data = partitions_of(client.ask(request, FETCH_VERSION))[0]

    assert values_in(data) == [b"a" * 5000]
    assert data.records is not None
    assert len(data.records) == next(batches_in(data))[0].size


def test_max_bytes_bounds_all_partitions_together(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    for partition in range(4):
        for _ in range(10):
            produce_ok(client, topic, b"x" * 1000, partition=partition)

    request = fetch_request(topic, dict.fromkeys(range(4), 0), max_bytes=15_000)
    answer = partitions_of(client.ask(request, FETCH_VERSION))

    sizes = [len(answer[partition].records or b"") for partition in range(4)]
    assert 10_000 < sum(sizes) <= 15_000
    assert all(data.error_code == ErrorCode.NONE and data.high_watermark == 10 for data in answer.values())


def test_only_the_first_partition_with_records_may_exceed_the_limit(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    for partition in (1, 2):
        produce_ok(client, topic, b"x" * 1000, partition=partition)

    answer = partitions_of(client.ask(fetch_request(topic, {0: 0, 1: 0, 2: 0}, max_bytes=10), FETCH_VERSION))

    assert not answer[0].records
    assert values_in(answer[1]) == [b"x" * 1000]
    assert not answer[2].records


def test_a_fetch_inside_a_batch_returns_the_batch(client: WireClient, new_topic: NewTopic) -> None:
    """Records are not opened: the client skips what lies before its offset."""
    topic = new_topic()
    produce_ok(client, topic, b"zero", b"one", b"two")

    data = fetch(client, topic, 2)

    assert [header.base_offset for header, _ in batches_in(data)] == [0]
    assert values_in(data) == [b"zero", b"one", b"two"]


def test_the_fetch_goes_on_in_the_next_segment(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(configs={"internal.segment.bytes": "4000"})
    values = [b"%d" % number * 900 for number in range(9)]
    for value in values:
        produce_ok(client, topic, value)

    found: list[bytes | None] = []
    while len(found) < len(values):
        more = values_in(fetch(client, topic, len(found)))
        assert more
        found += more

    assert found == values


class SlowClient(WireClient):
    """Takes little at a time, pauses in between, and lets the broker's socket fill up."""

    def receive_exactly(self, count: int) -> bytes:
        chance = random.Random(count)
        received = b""
        while len(received) < count:
            received += super().receive_exactly(min(count - len(received), chance.randrange(1, 100_000)))
            time.sleep(0.002)
        return received


def test_a_slow_consumer_gets_the_right_bytes(shared_broker: Broker, client: WireClient, new_topic: NewTopic) -> None:
    """Megabytes by sendfile through a tiny window, with an answer from memory behind them; others do not wait."""
    topic = new_topic(configs={"max.message.bytes": "4000000"})
    chance = random.Random(5)
    values = [chance.randbytes(1_500_000) for _ in range(4)]
    for value in values:
        produce_ok(client, topic, value)

    with SlowClient(shared_broker.bootstrap_servers, receive_buffer=2048) as slow:
        fetch_id = slow.send(fetch_request(topic, {0: 0}, partition_max_bytes=50 << 20), FETCH_VERSION)
        versions_id = slow.send(ApiVersionsRequest(), 0)
        time.sleep(0.2)
        produce_ok(client, topic, b"meanwhile")  # and nothing has been taken yet
        data = partitions_of(slow.receive(1, FETCH_VERSION, fetch_id))[0]
        assert slow.receive(18, 0, versions_id).error_code == ErrorCode.NONE

    assert data.high_watermark == len(values)
    assert values_in(data) == values
