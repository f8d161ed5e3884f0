"""Rules of the codec, case by case; tests/property checks what holds for every message."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from penstock.core.errors import ProtocolError
from penstock.protocol import codec
from penstock.protocol.definitions.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.definitions.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.reader_source import compile_reader


def encoded(message: MetadataRequest | ProduceRequest | FetchResponse | ApiVersionsResponse, version: int) -> bytearray:
    out = bytearray()
    codec.writer(type(message), version)(out, message)
    return out


def test_a_function_is_compiled_once() -> None:
    assert codec.reader(MetadataRequest, 9) is codec.reader(MetadataRequest, 9)
    assert codec.writer(MetadataRequest, 9) is codec.writer(MetadataRequest, 9)
    assert codec.splicing_writer(MetadataRequest, 9) is codec.splicing_writer(MetadataRequest, 9)


@pytest.mark.parametrize("version", [-1, 14])
def test_a_version_that_the_message_does_not_have_is_the_callers_mistake(version: int) -> None:
    for compiled in (codec.reader, codec.writer, codec.splicing_writer):
        with pytest.raises(ValueError, match="versions 0 to 13"):
            compiled(MetadataRequest, version)


@pytest.mark.parametrize(
    ("version", "request_bytes"),
    [
        (0, struct.pack(">i", 2**31 - 1)),
        (8, struct.pack(">i", 2**31 - 1)),
        (9, b"\xff\xff\xff\xff\x07"),
        (12, b"\xff\xff\xff\xff\x07"),
    ],
)
def test_a_huge_count_neither_allocates_nor_loops(version: int, request_bytes: bytes) -> None:
    frame = request_bytes.ljust(31, b"\x00")
    read = codec.reader(MetadataRequest, version)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="topics is longer"):
            read(frame, 0, len(frame))
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def test_a_count_is_bounded_by_the_smallest_elements_that_could_follow() -> None:
    """A topic of Metadata v12 has at least 16 bytes of id, one of name and one of tags."""
    read = codec.reader(MetadataRequest, 12)
    with pytest.raises(ProtocolError, match="topics is longer"):
        read(bytes([4]) + bytes(18 * 3 - 1), 0, 18 * 3)


@pytest.mark.parametrize(
    "varint", [b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x80\x00"]
)
def test_varints_beyond_31_bits_are_refused(varint: bytes) -> None:
    with pytest.raises(ProtocolError, match="varint"):
        codec.reader(MetadataRequest, 9)(varint + bytes(20), 0, 20)


def test_null_where_there_is_no_null_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"MetadataRequest\.topics is null"):
        codec.reader(MetadataRequest, 0)(b"\xff\xff\xff\xff", 0, 4)
    assert codec.reader(MetadataRequest, 1)(b"\xff\xff\xff\xff", 0, 4)[0].topics is None
    with pytest.raises(ProtocolError, match=r"MetadataRequestTopic\.name is null"):
        codec.reader(MetadataRequest, 9)(b"\x02\x00\x00\x00\x00\x00\x00", 0, 7)


def test_null_that_the_version_cannot_carry_is_not_written() -> None:
    with pytest.raises(TypeError):
        encoded(MetadataRequest(topics=None), 0)


def test_text_that_is_not_utf8_is_refused() -> None:
    out = encoded(MetadataRequest(topics=[MetadataRequestTopic(name="ab")]), 1)
    out[-1] = 0xFF
    with pytest.raises(ProtocolError, match="utf-8"):
        codec.reader(MetadataRequest, 1)(out, 0, len(out))


def test_what_follows_the_message_is_left_alone() -> None:
    out = encoded(MetadataRequest(topics=[MetadataRequestTopic(name="ab")]), 9)
    message, position = codec.reader(MetadataRequest, 9)(out + b"more", 0, len(out) + 4)
    assert position == len(out)
    assert message.topics == [MetadataRequestTopic(name="ab")]


def test_a_message_may_not_run_into_the_next_frame() -> None:
    out = bytes(encoded(MetadataRequest(topics=[MetadataRequestTopic(name="ab")]), 9))
    with pytest.raises(ProtocolError):
        codec.reader(MetadataRequest, 9)(out, 0, len(out) - 1)


def test_a_length_beyond_the_frame_is_refused_before_anything_is_copied() -> None:
    """The bytes are there, but they belong to the next frame."""
    buffer = b"\x02\xff\xff\x03" + bytes(70_000)
    read = codec.reader(MetadataRequest, 9)  # compiled before memory is measured
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=r"MetadataRequestTopic\.name is longer"):
            read(buffer, 0, 40)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


def test_a_known_tagged_field_must_have_the_size_that_it_announced() -> None:
    out = encoded(ApiVersionsResponse(finalized_features_epoch=5), 3)
    assert out.endswith(b"\x01\x01\x08" + struct.pack(">q", 5))
    for size in (7, 9):
        damaged = out[:-9] + bytes([size]) + out[-8:] + bytes(2)
        with pytest.raises(ProtocolError, match="not of its size"):
            codec.reader(ApiVersionsResponse, 3)(damaged, 0, len(damaged))


def test_a_tagged_field_with_its_default_is_left_out() -> None:
    assert encoded(ApiVersionsResponse(), 3) == encoded(ApiVersionsResponse(finalized_features_epoch=-1), 3)
    assert (
        len(encoded(ApiVersionsResponse(finalized_features_epoch=0), 3)) == len(encoded(ApiVersionsResponse(), 3)) + 10
    )


def test_fields_that_a_version_lacks_are_left_out_and_read_as_defaults() -> None:
    out = bytearray()
    codec.writer(ApiVersionsRequest, 0)(out, ApiVersionsRequest(client_software_name="x"))
    assert out == b""
    assert codec.reader(ApiVersionsRequest, 0)(b"", 0, 0) == (ApiVersionsRequest(), 0)


@pytest.mark.parametrize("version", [8, 9])
def test_records_are_views_into_the_frame(version: int) -> None:
    records = bytes(range(256)) * 100
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=records)])]
    )
    frame = encoded(request, version)
    for buffer in (frame, memoryview(frame)):
        message, _ = codec.reader(ProduceRequest, version)(buffer, 0, len(frame))
        view = message.topic_data[0].partition_data[0].records
        assert isinstance(view, memoryview)
        assert view == records
        view[0] ^= 0xFF
        assert records[0] ^ 0xFF in frame
        view[0] ^= 0xFF


class FileSlice:
    """Something that is sent without ever being in memory: all that the writer may ask is its length."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


@pytest.mark.parametrize("version", [11, 12])
def test_spliced_records_only_need_a_length(version: int) -> None:
    def response(*records: object) -> FetchResponse:
        partitions = [PartitionData(partition_index=index, records=value) for index, value in enumerate(records)]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    slices = FileSlice(10), FileSlice(100_000)
    out = bytearray()
    splices: list[tuple[int, object]] = []
    codec.splicing_writer(FetchResponse, version)(out, response(slices[0], None, slices[1]), splices)  # type: ignore[arg-type]
    assert [value for _, value in splices] == list(slices)
    (first, _), (second, _) = splices
    expected = encoded(response(bytes(10), None, bytes(100_000)), version)
    assert out[:first] + bytes(10) + out[first:second] + bytes(100_000) + out[second:] == expected


def test_a_struct_in_a_tag_is_there_or_not() -> None:
    leader = LeaderIdAndEpoch(leader_id=3, leader_epoch=9)
    partitions = [PartitionData(partition_index=0), PartitionData(partition_index=1, current_leader=leader)]
    out = encoded(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)]), 12)
    message, _ = codec.reader(FetchResponse, 12)(out, 0, len(out))
    assert [partition.current_leader for partition in message.responses[0].partitions] == [None, leader]


def test_the_index_finds_the_classes() -> None:
    assert codec.request_class(3) is MetadataRequest
    assert codec.response_class(1) is FetchResponse


def test_the_elements_of_a_message_are_bounded_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three bytes on the wire may be a hundred in memory, so that a large frame could cost fifty times its size."""
    monkeypatch.setattr("penstock.protocol.reader_source.MESSAGE_ELEMENTS_MAX", 10)
    read = compile_reader(ProduceRequest, 9)
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData()] * 4) for _ in range(2)]
    for request, fits in [(ProduceRequest(topic_data=topics), True), (ProduceRequest(topic_data=topics * 2), False)]:
        frame = encoded(request, 9)
        if fits:
            assert read(frame, 0, len(frame))[0] == request
        else:
            with pytest.raises(ProtocolError, match="more than 10 elements"):
                read(frame, 0, len(frame))
