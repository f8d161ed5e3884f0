"""A fetch waits for as much as it asked for, for as long as it may, and holds up nobody but its own connection."""

from __future__ import annotations

import time

import pytest

from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.definitions.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.schema import Message
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.conversation import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch_of,
    delete_topic,
    fetch,
    fetch_request,
    is_silent,
    partitions_of,
    produce_ok,
    produce_request,
    values_in,
)
from tests.wire_client import WireClient, encode_request, framed

FETCH = 1
PRODUCE = 0
LIST_OFFSETS = 2
DELETE_RECORDS = 21
LONG_MS = 600_000
"""Longer than any client of these tests waits for an answer."""


def test_an_empty_fetch_waits_max_wait_and_then_answers(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    began = time.monotonic()

    response = client.ask(fetch_request(topic, {0: 0}, max_wait_ms=300), FETCH_VERSION)

    assert time.monotonic() - began >= 0.25
    data = partitions_of(response)[0]
    assert data.error_code == ErrorCode.NONE
    assert data.high_watermark == 0
    assert not data.records


def test_a_fetch_without_a_wait_is_answered_at_once(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    answer = client.ask(fetch_request(topic, {0: 0}, max_wait_ms=0, min_bytes=1 << 20), FETCH_VERSION)
    assert partitions_of(answer)[0].error_code == ErrorCode.NONE


def test_an_append_wakes_a_parked_fetch(client: WireClient, other_client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    correlation_id = client.send(fetch_request(topic, {0: 0}, max_wait_ms=LONG_MS), FETCH_VERSION)
    assert is_silent(client)

    produce_ok(other_client, topic, b"woken")
    data = partitions_of(client.receive(FETCH, FETCH_VERSION, correlation_id))[0]

    assert values_in(data) == [b"woken"]
    assert data.high_watermark == 1


def test_min_bytes_are_waited_for(client: WireClient, other_client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    values = [bytes([65 + number]) * 400 for number in range(5)]
    request = fetch_request(topic, {0: 0}, max_wait_ms=LONG_MS, min_bytes=2000)
    correlation_id = client.send(request, FETCH_VERSION)
    for value in values[:4]:
        produce_ok(other_client, topic, value)
        assert is_silent(client, 0.05)

    produce_ok(other_client, topic, values[4])
    data = partitions_of(client.receive(FETCH, FETCH_VERSION, correlation_id))[0]

    assert values_in(data) == values


def test_min_bytes_count_over_all_partitions(client: WireClient, other_client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    produce_ok(other_client, topic, b"a" * 700, partition=0)
    request = fetch_request(topic, {0: 0, 1: 0}, max_wait_ms=LONG_MS, min_bytes=1400)
    correlation_id = client.send(request, FETCH_VERSION)
    assert is_silent(client)

    produce_ok(other_client, topic, b"b" * 700, partition=1)
    answer = partitions_of(client.receive(FETCH, FETCH_VERSION, correlation_id))

    assert values_in(answer[0]) == [b"a" * 700]
    assert values_in(answer[1]) == [b"b" * 700]


def test_after_max_wait_fewer_than_min_bytes_are_returned(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce_ok(client, topic, b"small")

    response = client.ask(fetch_request(topic, {0: 0}, max_wait_ms=200, min_bytes=1 << 20), FETCH_VERSION)

    assert values_in(partitions_of(response)[0]) == [b"small"]


def test_an_error_is_told_at_once(client: WireClient, new_topic: NewTopic) -> None:
    """Waiting cannot heal it, so a fetch of one good and one bad partition does not wait."""
    topic = new_topic(partitions=2)

    response = client.ask(fetch_request(topic, {0: 0, 1: 5}, max_wait_ms=LONG_MS), FETCH_VERSION)

    answer = partitions_of(response)
    assert answer[0].error_code == ErrorCode.NONE
    assert answer[1].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("version", "code"), [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (FETCH_VERSION, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_a_parked_fetch_learns_that_its_topic_was_deleted(
    client: WireClient, other_client: WireClient, new_topic: NewTopic, version: int, code: ErrorCode
) -> None:
    topic = new_topic()
    correlation_id = client.send(fetch_request(topic, {0: 0}, max_wait_ms=LONG_MS), version)
    assert is_silent(client)

    delete_topic(other_client, topic.name)
    response = client.receive(FETCH, version, correlation_id)

    assert partitions_of(response)[0].error_code == code


def test_answers_keep_the_order_of_the_requests(
    client: WireClient, other_client: WireClient, new_topic: NewTopic
) -> None:
    """A produce behind a parked fetch is carried out at once, and answered after the fetch."""
    topic, awaited = new_topic(), new_topic()
    fetch_id = client.send(fetch_request(awaited, {0: 0}, max_wait_ms=LONG_MS), FETCH_VERSION)
    produce_id = client.send(produce_request(topic, {0: batch_of(b"behind")}), PRODUCE_VERSION)
    versions_id = client.send(ApiVersionsRequest(), 0)
    assert is_silent(client)
    assert values_in(fetch(other_client, topic)) == [b"behind"]

    produce_ok(other_client, awaited, b"in front")

    assert values_in(partitions_of(client.receive(FETCH, FETCH_VERSION, fetch_id))[0]) == [b"in front"]
    produced = client.receive(PRODUCE, PRODUCE_VERSION, produce_id).responses[0].partition_responses[0]
    assert (produced.error_code, produced.base_offset) == (ErrorCode.NONE, 0)
    assert client.receive(18, 0, versions_id).error_code == ErrorCode.NONE


def test_a_produce_wakes_the_fetch_in_front_of_it_on_its_own_connection(
    client: WireClient, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fetch_id = client.send(fetch_request(topic, {0: 0}, max_wait_ms=LONG_MS), FETCH_VERSION)
    produce_id = client.send(produce_request(topic, {0: batch_of(b"own")}), PRODUCE_VERSION)

    assert values_in(partitions_of(client.receive(FETCH, FETCH_VERSION, fetch_id))[0]) == [b"own"]
    assert client.receive(PRODUCE, PRODUCE_VERSION, produce_id).responses[0].partition_responses[0].base_offset == 0


def test_requests_that_arrive_together_take_effect_in_order(client: WireClient, new_topic: NewTopic) -> None:
    """All in one socket read: each finds what those before it did, although appends are written together."""
    topic = new_topic()
    latest = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=topic.name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
    )
    delete = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])]
    )
    requests: list[tuple[Message, int]] = [
        (produce_request(topic, {0: batch_of(b"zero")}, acks=0), PRODUCE_VERSION),
        (latest, 7),
        (produce_request(topic, {0: batch_of(b"one")}), PRODUCE_VERSION),
        (fetch_request(topic, {0: 1}), FETCH_VERSION),
        (produce_request(topic, {0: batch_of(b"two")}), PRODUCE_VERSION),
        (delete, 2),
    ]

    client.send_raw(b"".join(framed(encode_request(request, version)) for request, version in requests))

    assert client.receive(LIST_OFFSETS, 7, 0).topics[0].partitions[0].offset == 1
    assert client.receive(PRODUCE, PRODUCE_VERSION, 0).responses[0].partition_responses[0].base_offset == 1
    assert values_in(partitions_of(client.receive(FETCH, FETCH_VERSION, 0))[0]) == [b"one"]
    assert client.receive(PRODUCE, PRODUCE_VERSION, 0).responses[0].partition_responses[0].base_offset == 2
    assert client.receive(DELETE_RECORDS, 2, 0).topics[0].partitions[0].low_watermark == 3


def test_hundreds_of_pipelined_requests_are_answered_in_order(client: WireClient, new_topic: NewTopic) -> None:
    """More than the broker lets wait at once: it stops reading, and goes on when the line has moved."""
    topic, awaited = new_topic(), new_topic()
    fetch_id = client.send(fetch_request(awaited, {0: 0}, max_wait_ms=500), FETCH_VERSION)
    produce_ids = [
        client.send(produce_request(topic, {0: batch_of(b"%d" % number)}), PRODUCE_VERSION) for number in range(1500)
    ]

    client.receive(FETCH, FETCH_VERSION, fetch_id)
    offsets = [
        client.receive(PRODUCE, PRODUCE_VERSION, produce_id).responses[0].partition_responses[0].base_offset
        for produce_id in produce_ids
    ]

    assert offsets == list(range(1500))
    assert values_in(fetch(client, topic)) == [b"%d" % number for number in range(1500)]


def test_a_client_that_leaves_takes_its_parked_fetch_along(
    client: WireClient, other_client: WireClient, new_topic: NewTopic
) -> None:
    topic = new_topic()
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=LONG_MS), FETCH_VERSION)
    assert is_silent(client)

    client.close()

    assert produce_ok(other_client, topic, b"nobody waits") == 0
    assert values_in(fetch(other_client, topic)) == [b"nobody waits"]
