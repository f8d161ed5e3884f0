from __future__ import annotations

import pytest

from penstock.pipeline.topics.batch_reader import TopicBatchReader, batch_query_ranges
from penstock.pipeline.topics.data_loss import DataLossPolicy
from penstock.pipeline.topics.errors import DataLossError, InvalidOption, UnknownTopicError
from penstock.pipeline.topics.options import read_batch_options
from tests.unit.pipeline.topics.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("t", 10, 20)
    return cluster


def read(cluster: FakeCluster, **given: str) -> list[tuple[int, int, int]]:
    options = read_batch_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | given)
    found = batch_query_ranges(cluster, options, DataLossPolicy(options.fail_on_data_loss))
    return [(part.topic_partition.partition, part.start_offset, part.end_offset) for part in found]


def test_everything_by_default(cluster: FakeCluster) -> None:
    assert read(cluster) == [(0, 0, 10), (1, 0, 20)]


def test_between_offsets(cluster: FakeCluster) -> None:
    assert read(cluster, startingOffsets='{"t":{"0":2,"1":-2}}', endingOffsets='{"t":{"0":-1,"1":5}}') == [
        (0, 2, 10),
        (1, 0, 5),
    ]


def test_between_timestamps(cluster: FakeCluster) -> None:
    cluster.log("t", 0).timestamps_ms = {100: 3, 200: 7}
    cluster.log("t", 1).timestamps_ms = {100: 4}
    assert read(cluster, startingTimestamp="100", endingTimestamp="200") == [(0, 3, 7), (1, 4, 20)]
    with pytest.raises(InvalidOption, match="starting offset 7 is behind the ending offset 3"):
        read(
            cluster,
            startingTimestamp="200",
            endingTimestamp="100",
            startingOffsetsByTimestampStrategy="latest",
        )


def test_only_the_assigned_partitions(cluster: FakeCluster) -> None:
    options = read_batch_options({"kafka.bootstrap.servers": "h:1", "assign": '{"t":[1]}'})
    assert len(batch_query_ranges(cluster, options, DataLossPolicy(True))) == 1
    missing = read_batch_options({"kafka.bootstrap.servers": "h:1", "assign": '{"t":[1,4]}'})
    with pytest.raises(UnknownTopicError, match="topic 't' partition 4"):
        batch_query_ranges(cluster, missing, DataLossPolicy(True))


def test_an_end_that_is_not_there(cluster: FakeCluster) -> None:
    given = {"startingOffsets": '{"t":{"0":2,"1":2}}', "endingOffsets": '{"t":{"0":11,"1":5}}'}
    with pytest.raises(DataLossError, match="the ending offset is 11, but the partition ends at 10"):
        read(cluster, **given)
    assert read(cluster, **given, failOnDataLoss="false") == [(0, 2, 10), (1, 2, 5)]


def test_a_start_that_is_gone(cluster: FakeCluster) -> None:
    cluster.log("t", 0).earliest = 6
    given = {"startingOffsets": '{"t":{"0":2,"1":2}}'}
    with pytest.raises(DataLossError, match="earliest that is left is 6"):
        read(cluster, **given)
    assert read(cluster, **given, failOnDataLoss="false") == [(0, 6, 10), (1, 2, 20)]
    assert read(cluster) == [(0, 6, 10), (1, 0, 20)]


def test_the_reader_divides_and_hangs_up(cluster: FakeCluster) -> None:
    options = read_batch_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "maxRecordsPerPartition": "5"})
    reader = TopicBatchReader(options, ["value"], lambda _: cluster)
    assert [partition.value.size for partition in reader.partitions()] == [5] * 6
    assert cluster.is_closed
