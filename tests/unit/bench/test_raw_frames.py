"""The hand-made frames against the codec, which the property tests hold against kio."""

from __future__ import annotations

import struct

import pytest

from penstock.bench import raw_frames
from penstock.bench.measurement import MeasurementError
from penstock.protocol import codec
from penstock.protocol.definitions.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.protocol.definitions.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.definitions.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.record_batch import crc_holds, parse_header
from penstock.protocol.schema import Message

REQUEST_HEADER = struct.Struct(">ihhih")
BATCH = raw_frames.record_batch(3, b"v" * 200, timestamp_ms=1_700_000_000_000)


def body_of(frame: bytes, api_key: int, version: int) -> bytes:
    size, key, its_version, correlation_id, client_id_length = REQUEST_HEADER.unpack_from(frame)
    assert size == len(frame) - 4
    assert (key, its_version, correlation_id, client_id_length) == (api_key, version, 7, -1)
    return frame[REQUEST_HEADER.size :]


def answer_of(message: Message, version: int) -> bytes:
    out = bytearray(struct.pack(">i", 7))
    codec.writer(type(message), version)(out, message)
    return bytes(out)


def fetch_answer(records: bytes, error: int = 0) -> bytes:
    partition = PartitionData(partition_index=0, error_code=error, high_watermark=9, records=records)
    topic = FetchableTopicResponse(topic="t", partitions=[partition])
    return answer_of(FetchResponse(responses=[topic]), 4)


def test_the_batch_is_whole_and_its_crc_holds() -> None:
    header = parse_header(BATCH)
    assert header.size == len(BATCH)
    assert header.magic == 2
    assert header.records_count == 3
    assert header.last_offset_delta == 2
    assert header.max_timestamp == 1_700_000_000_000
    assert crc_holds(memoryview(BATCH), header)


def test_produce_request() -> None:
    body = body_of(raw_frames.produce_request("t", 5, BATCH, correlation_id=7), 0, 3)
    request, end = codec.reader(ProduceRequest, 3)(body, 0, len(body))
    assert end == len(body)
    assert request.acks == 1
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (topic.name, partition.index) == ("t", 5)
    assert partition.records is not None
    assert bytes(partition.records) == BATCH


def test_fetch_request() -> None:
    body = body_of(raw_frames.fetch_request("t", 2, 123_456_789_012, correlation_id=7), 1, 4)
    request, end = codec.reader(FetchRequest, 4)(body, 0, len(body))
    assert end == len(body)
    assert (request.replica_id, request.min_bytes) == (-1, 1)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert topic.topic == "t"
    assert (partition.partition, partition.fetch_offset, partition.partition_max_bytes) == (2, 123_456_789_012, 1)


def test_metadata_request() -> None:
    body = body_of(raw_frames.metadata_request("t", correlation_id=7), 3, 4)
    request, end = codec.reader(MetadataRequest, 4)(body, 0, len(body))
    assert end == len(body)
    assert request.allow_auto_topic_creation is True
    assert request.topics is not None
    assert [topic.name for topic in request.topics] == ["t"]


@pytest.mark.parametrize("error", [0, 3])
def test_produce_answer(error: int) -> None:
    partition = PartitionProduceResponse(index=0, error_code=error, base_offset=42)
    answer = answer_of(ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])]), 3)
    assert raw_frames.read_produce_answer(answer) == (error, 42)


def test_led_partitions_are_counted() -> None:
    partitions = [
        MetadataResponsePartition(partition_index=number, leader_id=leader, replica_nodes=[1], isr_nodes=[1, 2])
        for number, leader in enumerate([1, -1, 0])
    ]
    answer = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=1, rack=rack) for rack in (None, "r")],
        cluster_id="c",
        topics=[MetadataResponseTopic(name="t", partitions=partitions)],
    )
    assert raw_frames.led_partitions(answer_of(answer, 4)) == 2


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_a_fetch_answer_that_holds_the_offset(offset: int) -> None:
    raw_frames.check_fetch_answer(fetch_answer(BATCH), offset)


@pytest.mark.parametrize(
    ("answer", "offset"),
    [
        pytest.param(fetch_answer(BATCH), 3, id="another batch"),
        pytest.param(fetch_answer(b""), 0, id="no records"),
        pytest.param(fetch_answer(BATCH, error=1), 0, id="an error"),
        pytest.param(fetch_answer(BATCH)[:40], 0, id="cut off"),
    ],
)
def test_a_fetch_answer_that_does_not(answer: bytes, offset: int) -> None:
    with pytest.raises(MeasurementError):
        raw_frames.check_fetch_answer(answer, offset)
