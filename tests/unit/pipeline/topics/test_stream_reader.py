"""What a streaming query reads next, told by a cluster of dictionaries. Spark itself is in tests/pipeline."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from penstock.pipeline.topics.errors import DataLossError, InvalidOption, UnknownTopicError
from penstock.pipeline.topics.options import read_stream_options
from penstock.pipeline.topics.planning import OffsetRange
from penstock.pipeline.topics.stream_reader import TopicStreamReader
from tests.unit.pipeline.topics.fake_cluster import FakeCluster


class Query:
    """A reader as Spark drives it: one batch after another, each from the end of the one before."""

    def __init__(self, cluster: FakeCluster, **options: str) -> None:
        chosen = {"subscribe": "t"} if "subscribePattern" not in options else {}
        fixed = {"kafka.bootstrap.servers": "h:1", "fetchOffset.retryIntervalMs": "0", "idleWaitMs": "40"}
        self.now_s = 1000.0
        self.reader = TopicStreamReader(
            read_stream_options(fixed | chosen | options), ["value"], lambda _: cluster, lambda: self.now_s
        )
        self.at: dict[str, Any] | None = None
        cluster_wait = cluster.wait_for_records

        def wait(ends: Any, timeout_ms: int) -> None:
            cluster_wait(ends, timeout_ms)
            self.now_s += timeout_ms / 1000

        cluster.wait_for_records = wait  # type: ignore[method-assign]

    def next_end(self, limit: ReadLimit | None = None) -> dict[str, Any]:
        start = self.reader.initialOffset() if self.at is None else self.at
        return self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())

    def run_batch(self, limit: ReadLimit | None = None) -> list[tuple[str, int, int, int]]:
        end = self.next_end(limit)
        start, self.at = self.reader.initialOffset() if self.at is None else self.at, end
        return ranges(self.reader, start, end)


def ranges(reader: TopicStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    parts: list[OffsetRange] = [part for task in reader.partitions(start, end) for part in task.value]
    return [(*part.topic_partition, part.start_offset, part.end_offset) for part in parts]


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("t", 10, 20)
    return cluster


def test_a_query_reads_on_from_where_it_was(cluster: FakeCluster) -> None:
    query = Query(cluster, startingOffsets="earliest")
    assert query.run_batch() == [("t", 0, 0, 10), ("t", 1, 0, 20)]
    cluster.log("t", 1).latest = 25
    assert query.run_batch() == [("t", 1, 20, 25)]
    assert query.at == {"t": {"0": 10, "1": 25}}
    assert query.reader.reportLatestOffset() == {"t": {"0": 10, "1": 25}}


def test_a_small_batch_is_one_task_unless_more_are_asked_for(cluster: FakeCluster) -> None:
    def tasks(**options: str) -> int:
        query = Query(cluster, startingOffsets="earliest", **options)
        start, end = query.reader.initialOffset(), query.next_end()
        return len(query.reader.partitions(start, end))

    assert tasks() == 1
    assert tasks(minPartitions="2") == 2
    assert tasks(maxRecordsPerPartition="30") == 1
    assert tasks(maxRecordsPerPartition="10") == 3
    cluster.log("t", 1).latest = 20_000
    assert tasks() == 2


def test_nothing_new_is_the_very_same_offset(cluster: FakeCluster) -> None:
    query = Query(cluster)
    query.run_batch()
    before = json.dumps(query.at)
    assert query.run_batch() == []
    assert json.dumps(query.at) == before


def test_latest_is_found_out_once(cluster: FakeCluster) -> None:
    """Between the two times that Spark asks, and after a crash before the first batch is committed, records come."""
    query = Query(cluster)
    end = query.next_end()
    cluster.log("t", 0).latest = 13
    assert query.reader.initialOffset() == {"t": {"0": 10, "1": 20}}
    assert ranges(query.reader, query.reader.initialOffset(), end) == []

    cluster.create("t", 13, 20, 5)  # and a partition more
    restarted = Query(cluster)
    logged = json.loads(json.dumps(end))
    assert ranges(restarted.reader, restarted.reader.initialOffset(), logged) == []
    restarted.at = logged
    assert restarted.run_batch() == [("t", 0, 10, 13), ("t", 2, 0, 5)]


def test_a_first_batch_that_is_planned_again_reads_the_same(cluster: FakeCluster) -> None:
    query = Query(cluster)
    initial = query.reader.initialOffset()
    cluster.log("t", 0).latest = 12
    end = query.reader.latestOffset(initial, ReadAllAvailable())
    planned = ranges(query.reader, initial, end)
    assert planned == [("t", 0, 10, 12)]
    cluster.log("t", 0).latest = 90
    restarted = Query(cluster).reader
    assert ranges(restarted, restarted.initialOffset(), end) == planned


def test_limits_are_shared_among_partitions(cluster: FakeCluster) -> None:
    query = Query(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="9")
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(9)
    assert query.run_batch() == [("t", 0, 0, 3), ("t", 1, 0, 6)]
    assert query.run_batch() == [("t", 0, 3, 6), ("t", 1, 6, 12)]
    assert query.run_batch(ReadAllAvailable()) == [("t", 0, 6, 10), ("t", 1, 12, 20)]


def test_a_batch_waits_for_enough_rows_or_long_enough(cluster: FakeCluster) -> None:
    query = Query(cluster, startingOffsets="earliest", minOffsetsPerTrigger="50", maxTriggerDelay="10s", idleWaitMs="0")
    assert query.reader.getDefaultReadLimit() == ReadMinRows(50)
    assert len(query.run_batch()) == 2, "the first batch of a run is not held back"
    cluster.log("t", 0).latest = 40
    assert query.run_batch() == []
    cluster.log("t", 1).latest = 40
    assert query.run_batch() == [("t", 0, 10, 40), ("t", 1, 20, 40)]
    cluster.log("t", 0).latest = 41
    assert query.run_batch() == []
    query.now_s += 10
    assert query.run_batch() == [("t", 0, 40, 41)]


def test_partitions_and_topics_that_come_later_are_read_from_their_beginning(cluster: FakeCluster) -> None:
    query = Query(cluster, subscribePattern="t|new-.*")
    query.run_batch()
    cluster.create("new-topic", 3)
    cluster.create("other", 3)
    cluster.create("t", 10, 20, 7)
    assert query.run_batch() == [("new-topic", 0, 0, 3), ("t", 2, 0, 7)]
    assert query.run_batch() == []


def test_a_pattern_may_match_nothing_yet() -> None:
    cluster = FakeCluster()
    query = Query(cluster, subscribePattern="x.*")
    assert query.run_batch() == []
    assert query.run_batch() == []
    cluster.create("x1", 4)
    assert query.run_batch() == [("x1", 0, 0, 4)]


def test_a_run_over_what_is_there_now_ends(cluster: FakeCluster) -> None:
    query = Query(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="20", minOffsetsPerTrigger="20")
    query.reader.prepareForTriggerAvailableNow()
    cluster.log("t", 0).latest = 1000
    cluster.create("t", 1000, 1000, 1000)
    read = 0
    while batch := query.run_batch():
        read += sum(end - start for _, _, start, end in batch)
    assert read == 30
    assert cluster.waits == []


def test_a_run_over_what_is_there_now_that_starts_at_the_latest_reads_nothing(cluster: FakeCluster) -> None:
    query = Query(cluster)
    query.reader.prepareForTriggerAvailableNow()
    cluster.log("t", 0).latest = 1000
    assert query.run_batch() == []
    assert query.run_batch() == []


def test_an_idle_query_waits_at_the_cluster_once_it_has_begun(cluster: FakeCluster) -> None:
    query = Query(cluster)
    query.run_batch()
    assert cluster.waits == [], "the offset log has to know first where the query began"
    query.run_batch()
    assert len(cluster.waits) == 1
    query.reader.commit({})  # Spark runs a batch, though this source had nothing for it
    query.run_batch()
    assert len(cluster.waits) == 1, "another source has data, which must not wait for this one"
    query.run_batch()
    assert len(cluster.waits) == 2


class TestDataLoss:
    def lossy(self, cluster: FakeCluster, *, fail: bool) -> Query:
        query = Query(cluster, startingOffsets="earliest", failOnDataLoss=str(fail))
        query.run_batch()
        return query

    def test_a_deleted_topic_stops_the_query(self, cluster: FakeCluster) -> None:
        query = self.lossy(cluster, fail=True)
        cluster.delete("t")
        with pytest.raises(DataLossError, match=r"topic 't' partition 0 is gone.* offset 10.*failOnDataLoss to false"):
            query.run_batch()

    def test_a_deleted_topic_is_told_once(self, cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
        query = self.lossy(cluster, fail=False)
        cluster.delete("t")
        with caplog.at_level(logging.WARNING):
            assert query.run_batch() == []
            assert query.run_batch() == []
        assert [record.message.split(";")[0] for record in caplog.records] == [
            "topic 't' partition 0 is gone",
            "topic 't' partition 1 is gone",
        ]
        cluster.create("t", 3, topic_id=b"second")
        assert query.run_batch() == [("t", 0, 0, 3)]

    def test_a_topic_created_anew_with_fewer_records(self, cluster: FakeCluster) -> None:
        cautious, careless = self.lossy(cluster, fail=True), self.lossy(cluster, fail=False)
        cluster.create("t", 4, 20, topic_id=b"first")
        with pytest.raises(DataLossError, match="offset 10 was to be read next, but the partition ends at 4 now"):
            cautious.run_batch()
        assert careless.run_batch() == [("t", 0, 0, 4)]
        assert careless.run_batch() == []

    def test_a_topic_created_anew_with_more_records(self, cluster: FakeCluster) -> None:
        cautious, careless = self.lossy(cluster, fail=True), self.lossy(cluster, fail=False)
        cluster.create("t", 50, 20, topic_id=b"second")
        with pytest.raises(DataLossError, match="deleted and created again"):
            cautious.run_batch()
        planned = careless.run_batch()
        assert planned == [("t", 0, 0, 50), ("t", 1, 0, 20)]
        assert careless.run_batch() == []

    def test_records_that_were_deleted_before_they_were_read(self, cluster: FakeCluster) -> None:
        cautious, careless = self.lossy(cluster, fail=True), self.lossy(cluster, fail=False)
        cluster.log("t", 0).earliest, cluster.log("t", 0).latest = 15, 18
        cautious.now_s = careless.now_s = 2000.0
        with pytest.raises(
            DataLossError, match=r"offset 10 was to be read next.*earliest that is left is 15; 5 offsets"
        ):
            cautious.run_batch()
        assert careless.run_batch() == [("t", 0, 15, 18)]

    def test_a_batch_right_behind_another_leaves_the_check_to_its_tasks(self, cluster: FakeCluster) -> None:
        query = self.lossy(cluster, fail=True)
        cluster.log("t", 0).earliest, cluster.log("t", 0).latest = 15, 18
        query.now_s += 0.9
        assert query.run_batch() == [("t", 0, 10, 18)]

    def test_a_batch_that_others_decided_on_is_checked(self, cluster: FakeCluster) -> None:
        """As after a crash: the end is in the offset log, and this reader has not looked."""
        query = self.lossy(cluster, fail=True)
        cluster.log("t", 0).earliest, cluster.log("t", 0).latest = 15, 18
        with pytest.raises(DataLossError, match="offset 10 was to be read next"):
            ranges(query.reader, {"t": {"0": 10, "1": 20}}, {"t": {"0": 18, "1": 20}})

    def test_a_new_partition_that_begins_late(self, cluster: FakeCluster) -> None:
        cautious, careless = self.lossy(cluster, fail=True), self.lossy(cluster, fail=False)
        cluster.create("t", 10, 20, 9)
        cluster.log("t", 2).earliest = 4
        with pytest.raises(DataLossError, match="starts at offset 4 instead of 0"):
            cautious.run_batch()
        assert careless.run_batch() == [("t", 2, 4, 9)]

    def test_a_planned_batch_whose_end_was_cut_off(self, cluster: FakeCluster) -> None:
        query = Query(cluster, failOnDataLoss="false")
        cluster.log("t", 0).latest = 8
        start = {"t": {"0": 3, "1": 20}}
        assert ranges(query.reader, start, {"t": {"0": 10, "1": 20}}) == [("t", 0, 3, 8)]
        with pytest.raises(DataLossError):
            ranges(Query(cluster).reader, start, {"t": {"0": 10, "1": 20}})

    def test_an_answer_of_the_past_is_asked_for_again(self, cluster: FakeCluster) -> None:
        query = self.lossy(cluster, fail=True)
        answers = iter([7, 10])
        truth = cluster.latest

        def sometimes_late(partitions: Any) -> Any:
            cluster.log("t", 0).latest = next(answers, 10)
            return truth(partitions)

        cluster.latest = sometimes_late  # type: ignore[method-assign]
        assert query.run_batch() == []


def test_the_start_has_to_be_there() -> None:
    with pytest.raises(UnknownTopicError, match="no such topic: t"):
        Query(FakeCluster()).run_batch()


def test_starting_offsets_name_every_partition(cluster: FakeCluster) -> None:
    with pytest.raises(InvalidOption, match="must name every partition; topic 't' partition 1 is missing"):
        Query(cluster, startingOffsets='{"t":{"0":1}}').run_batch()
    with pytest.raises(InvalidOption, match="names topic 't' partition 5"):
        Query(cluster, startingOffsets='{"t":{"0":1,"1":1,"5":1}}').run_batch()
    assert Query(cluster, startingOffsets='{"t":{"0":-2,"1":18}}').run_batch() == [("t", 0, 0, 10), ("t", 1, 18, 20)]


def test_starting_at_a_timestamp(cluster: FakeCluster) -> None:
    cluster.log("t", 0).timestamps_ms[77] = 6
    with pytest.raises(InvalidOption, match=r"no record of topic 't' partition 1 .*77.*Strategy to latest"):
        Query(cluster, startingTimestamp="77").run_batch()
    lenient = Query(cluster, startingTimestamp="77", startingOffsetsByTimestampStrategy="latest")
    assert lenient.run_batch() == [("t", 0, 6, 10)]


def test_what_goes_to_tasks_has_no_connection(cluster: FakeCluster) -> None:
    options = read_stream_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"})
    reader = pickle.loads(pickle.dumps(TopicStreamReader(options, ["value"])))
    assert reader._open_cluster is None
    assert reader._options == options


def test_stop_closes_the_connection(cluster: FakeCluster) -> None:
    query = Query(cluster)
    query.run_batch()
    query.reader.stop()
    assert cluster.is_closed


def test_a_backlog_is_read_in_batches_of_about_the_wanted_time(cluster: FakeCluster) -> None:
    cluster.delete("t")
    cluster.create("t", 3_000_000)
    query = Query(cluster, startingOffsets="earliest", targetBatchMs="10000")
    assert query.run_batch() == [("t", 0, 0, 200_000)]
    query.now_s += 5
    assert query.run_batch() == [("t", 0, 200_000, 600_000)]
    query.now_s += 20
    assert query.run_batch() == [("t", 0, 600_000, 800_000)]
    query.now_s += 0.1
    assert query.run_batch() == [("t", 0, 800_000, 2_400_000)]
    assert query.run_batch() == [("t", 0, 2_400_000, 3_000_000)]


def test_a_run_over_available_records_reads_all_of_them_in_sized_batches(cluster: FakeCluster) -> None:
    cluster.delete("t")
    cluster.create("t", 500_000)
    query = Query(cluster, startingOffsets="earliest", targetBatchMs="10000")
    query.reader.prepareForTriggerAvailableNow()
    cluster.log("t", 0).latest = 900_000  # these came later
    read = []
    while batch := query.run_batch():
        read += batch
        query.now_s += 10
    assert read == [("t", 0, 0, 200_000), ("t", 0, 200_000, 400_000), ("t", 0, 400_000, 500_000)]


def test_a_given_number_of_records_is_not_sized(cluster: FakeCluster) -> None:
    query = Query(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="6", targetBatchMs="10000")
    assert query.run_batch() == [("t", 0, 0, 2), ("t", 1, 0, 4)]
