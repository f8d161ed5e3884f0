"""Small requests with large effects: every one of them is within the protocol, and none may cost much.

Each test has a bound on the memory that the broker takes while it works, and on how long a neighbour has to wait.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from crc32c import crc32c

from penstock.protocol.compression import Compression, compress
from penstock.protocol.definitions.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.definitions.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.definitions.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_batch import CRC_START, HEADER_BYTES, LOG_OVERHEAD
from penstock.protocol.schema import Message
from penstock.testing import Broker
from tests.record_batches import Record, encode_batch
from tests.robustness.bad_requests import Target
from tests.robustness.neighbour import (
    MEGABYTE,
    Neighbour,
    forget_resident_peak,
    resident_bytes,
    resident_bytes_peak,
)
from tests.robustness.printed_lines import unexpected_lines
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow

NEIGHBOUR_WAIT_S_MAX = 10.0
PEAK_GROWTH_MAX = 160 * MEGABYTE
BOMB_BYTES = 300 * MEGABYTE


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started
        printed = unexpected_lines(started)
        assert not printed, printed


@pytest.fixture(autouse=True)
def _bounds(broker: Broker) -> Iterator[None]:
    before = resident_bytes(broker.pid)
    forget_resident_peak(broker.pid)
    with Neighbour(broker.bootstrap_servers) as neighbour:
        neighbour.await_progress()
        yield
        neighbour.await_progress()
    peak = resident_bytes_peak(broker.pid) - before
    assert peak < PEAK_GROWTH_MAX, f"the broker grew by {peak / MEGABYTE:.0f} MB"
    assert neighbour.longest_wait_s < NEIGHBOUR_WAIT_S_MAX


@pytest.fixture
def target(broker: Broker) -> Target:
    return Target(broker.bootstrap_servers)


def answer_bytes(broker: Broker, request: Message, version: int) -> int:
    with WireClient(broker.bootstrap_servers) as client:
        client.send(request, version)
        return len(client.receive_frame())


def test_a_configuration_asked_for_twenty_thousand_times(broker: Broker) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1")
    request = DescribeConfigsRequest(resources=[resource] * 20_000, include_synonyms=True, include_documentation=True)
    assert answer_bytes(broker, request, 4) < MEGABYTE


def test_log_dirs_of_one_topic_asked_for_ten_thousand_times(broker: Broker, target: Target) -> None:
    wanted = DescribableLogDirTopic(topic=target.topic, partitions=[0] * 10)
    assert answer_bytes(broker, DescribeLogDirsRequest(topics=[wanted] * 10_000), 4) < 2 * MEGABYTE


def test_metadata_of_a_topic_asked_for_a_hundred_thousand_times(broker: Broker, target: Target) -> None:
    wanted = MetadataRequestTopic(name=target.topic)
    assert answer_bytes(broker, MetadataRequest(topics=[wanted] * 100_000), 12) < MEGABYTE


def test_a_hundred_thousand_unknown_topics(target: Target) -> None:
    names = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(100_000)]
    response = target.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_thirty_thousand_topics_with_an_unknown_setting(target: Target) -> None:
    """The nearest known name is looked for, and that takes its time; so only as many as a request may create."""
    topics = [
        CreatableTopic(
            name=f"hopeless-{number}",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=f"retention.mss{number}", value="1")],
        )
        for number in range(30_000)
    ]
    response = target.ask(CreateTopicsRequest(topics=topics), 7)
    codes = [topic.error_code for topic in response.topics]
    assert codes.count(ErrorCode.INVALID_CONFIG) == 10_000
    assert codes.count(ErrorCode.POLICY_VIOLATION) == 20_000


def test_one_partition_fetched_a_hundred_thousand_times(broker: Broker, target: Target) -> None:
    wanted = FetchTopic(topic=target.topic, partitions=[FetchPartition(partition_max_bytes=1000)] * 100_000)
    assert answer_bytes(broker, FetchRequest(topics=[wanted]), 12) < 100 * MEGABYTE


def test_fetch_sessions_of_many_partitions_are_given_until_they_remember_too_much(
    broker: Broker, target: Target
) -> None:
    partitions = [FetchPartition(partition=number, partition_max_bytes=0) for number in range(60_000)]
    request = FetchRequest(session_epoch=0, topics=[FetchTopic(topic=target.topic, partitions=partitions)])
    sessions = [target.ask(request, 12).session_id for _ in range(6)]
    assert [session > 0 for session in sessions] == [True] * 3 + [False] * 3
    # A session must not grow over the bound, either.
    grown = FetchRequest(
        session_id=sessions[0],
        session_epoch=1,
        topics=[
            FetchTopic(
                topic=target.topic, partitions=[FetchPartition(partition=100_000 + number) for number in range(60_000)]
            )
        ],
    )
    assert target.ask(grown, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for session in sessions[1:3]:
        target.ask(FetchRequest(session_id=session, session_epoch=-1), 12)
    assert target.ask(request, 12).session_id > 0, "what was given up makes room"


def test_a_hundred_thousand_lookups_by_time(target: Target) -> None:
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=1) for number in range(100_000)]
    wanted = ListOffsetsTopic(name=target.topic, partitions=partitions)
    response = target.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7)
    assert len(response.topics[0].partitions) == 100_000


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("setting", [("cleanup.policy", "compact"), ("compression.type", "other")])
def test_a_batch_that_unfolds_to_hundreds_of_megabytes(
    target: Target, codec: Compression, setting: tuple[str, str]
) -> None:
    name, value = setting
    if value == "other":
        value = "lz4" if codec is Compression.ZSTD else "zstd"
    topic, _ = target.new_topic({name: value, "max.message.bytes": str(50 * MEGABYTE)})
    payload = compress(codec, bytes(BOMB_BYTES))
    header = encode_batch([Record()], batch_length=HEADER_BYTES - LOG_OVERHEAD + len(payload), attributes=int(codec))[
        :HEADER_BYTES
    ]
    bomb = header + payload
    struct.pack_into(">I", bomb, CRC_START - 4, crc32c(bytes(bomb[CRC_START:])))
    assert target.produce(bomb, topic=topic) == ErrorCode.INVALID_RECORD
