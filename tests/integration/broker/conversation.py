"""What a test says to a broker over the wire client: one function for each request, with everything filled in but the
point of the test. Answers are the codec's own messages; a batch is read back record by record.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.protocol.compression import decompress
from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.definitions.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.definitions.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from penstock.protocol.definitions.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.definitions.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.definitions.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_batch import HEADER_BYTES, BatchHeader, crc_holds, parse_header
from tests.record_batches import Record, encode_batch
from tests.wire_client import WireClient

EARLIEST: Final = -2
LATEST: Final = -1
TOPIC_RESOURCE: Final = 2
FETCH_VERSION: Final = 16
PRODUCE_VERSION: Final = 12
QUIET_S: Final = 0.2


class Topic(NamedTuple):
    name: str
    topic_id: bytes


def is_silent(client: WireClient, seconds: float = QUIET_S) -> bool:
    """Whether no answer comes. A slow machine never turns this into a failure."""
    readable, _, _ = select.select([client.socket], [], [], seconds)
    return not readable


def await_earlier_requests(client: WireClient) -> None:
    """Returns when the broker has read what was sent before on other connections: it looks at all of them in turn, and
    what is asked second is read in a later turn than the first."""
    for _ in range(2):
        assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE


def create_topic(
    client: WireClient, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> Topic:
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    (result,) = client.ask(CreateTopicsRequest(topics=[wanted]), 7).topics
    assert result.error_code == ErrorCode.NONE, result.error_message
    return Topic(name, result.topic_id)


def delete_request(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=30_000)


def delete_topic(client: WireClient, name: str) -> None:
    (result,) = client.ask(delete_request(name), 6).responses
    assert result.error_code == ErrorCode.NONE, result.error_message


def set_topic_config(client: WireClient, topic: Topic, **configs: str) -> None:
    """Names with underscores in place of the dots."""
    changes = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic.name, configs=changes)
    (result,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert result.error_code == ErrorCode.NONE, result.error_message


def batch_of(*values: bytes) -> bytearray:
    return encode_batch([Record(value) for value in values])


def produce_request(topic: Topic, batches: Mapping[int, bytes | bytearray], *, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=batch) for index, batch in batches.items()]
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=data)],
    )


def produce(
    client: WireClient,
    topic: Topic,
    batch: bytes | bytearray,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = PRODUCE_VERSION,
) -> PartitionProduceResponse:
    """The answer for the one partition, whatever it says."""
    response = client.ask(produce_request(topic, {partition: batch}, acks=acks), version)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def produce_ok(client: WireClient, topic: Topic, *values: bytes, partition: int = 0) -> int:
    """One batch of these values; returns its base offset."""
    answer = produce(client, topic, batch_of(*values), partition=partition)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return answer.base_offset


def fetch_request(
    topic: Topic,
    offsets: Mapping[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    forgotten: Sequence[int] = (),
) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic.name, topic_id=topic.topic_id, partitions=list(forgotten))]
        if forgotten
        else [],
    )


def partitions_of(response: FetchResponse) -> dict[int, PartitionData]:
    """What a fetch of one topic says of each partition."""
    assert response.error_code == ErrorCode.NONE
    assert len(response.responses) <= 1
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def fetch(client: WireClient, topic: Topic, offset: int = 0, *, partition: int = 0) -> PartitionData:
    """What is there now."""
    return partitions_of(client.ask(fetch_request(topic, {partition: offset}), FETCH_VERSION))[partition]


def values_in(data: PartitionData) -> list[bytes | None]:
    return [value for batch in batches_in(data) for value in values_of(*batch)]


def batches_in(data: PartitionData) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of a fetched partition, each with a CRC that holds; what is cut off at the end is left out."""
    assert data.error_code == ErrorCode.NONE
    records = memoryview(data.records or b"")
    while len(records) >= HEADER_BYTES:
        header = parse_header(records)
        if header.size > len(records):
            return
        assert crc_holds(records[: header.size], header)
        yield header, records[: header.size]
        records = records[header.size :]


def values_of(header: BatchHeader, batch: memoryview) -> list[bytes | None]:
    payload = memoryview(decompress(header.compression, batch[HEADER_BYTES:], 1 << 28))
    values: list[bytes | None] = []
    position = 0
    for _ in range(header.records_count):
        length, position = _varint(payload, position)
        record_end = position + length
        position += 1
        for _delta in range(2):
            _, position = _varint(payload, position)
        _, position = _nullable_bytes(payload, position)
        value, _ = _nullable_bytes(payload, position)
        values.append(value)
        position = record_end
    return values


def _varint(payload: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def _nullable_bytes(payload: memoryview, position: int) -> tuple[bytes | None, int]:
    length, position = _varint(payload, position)
    if length < 0:
        return None, position
    return bytes(payload[position : position + length]), position + length


def list_offset(client: WireClient, topic: Topic, timestamp: int, *, partition: int = 0) -> int:
    wanted = ListOffsetsTopic(
        name=topic.name, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
    )
    answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    return int(answer.offset)


def delete_records(client: WireClient, topic: Topic, offset: int) -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsTopic(name=topic.name, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    response = client.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000), 2)
    answer: DeleteRecordsPartitionResult = response.topics[0].partitions[0]
    return answer
