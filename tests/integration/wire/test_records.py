"""Producing, fetching and listing offsets, against Penstock and Apache Kafka."""

from __future__ import annotations

from uuid import uuid4

import pytest

from penstock.core.errors import ClientError, UnknownTopic
from penstock.core.ids import OffsetAndMetadata, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.wire.client import Fetched, FetchOptions, WireClient
from tests.clients.waiting import eventually
from tests.integration.wire.wire_records import NOW_MS, batch_of, new_topic, values_of


def test_metadata_names_leaders_and_ids_and_creates_nothing(client: WireClient, servers: str) -> None:
    topic, absent = new_topic(servers, 3), f"absent-{uuid4().hex}"
    metadata = client.metadata([topic, absent])
    assert absent not in metadata.topics
    assert list(metadata.topics[topic].partitions) == [0, 1, 2]
    assert len(metadata.topics[topic].topic_id) == 16
    assert metadata.topics[topic].topic_id != bytes(16)
    assert {partition.leader_id for partition in metadata.topics[topic].partitions.values()} <= set(metadata.brokers)
    assert absent not in client.metadata().topics
    assert topic in client.metadata().topics


def test_a_setting_of_a_topic_is_told_and_what_is_unknown_is_none(client: WireClient, servers: str) -> None:
    """At once: a topic that does not exist is not waited for."""
    topic = new_topic(servers)
    assert client.topic_config(topic, "max.message.bytes") == "1048588", "the default, too"
    assert client.topic_config(topic, "no.such.setting") is None
    assert client.topic_config(f"absent-{uuid4().hex}", "max.message.bytes") is None


def test_produced_batches_come_back_as_bytes(client: WireClient, servers: str) -> None:
    first, second = (TopicPartition(new_topic(servers, 2), index) for index in (0, 1))
    second = TopicPartition(first.topic, 1)
    produced = client.produce({first: batch_of(b"a", b"b"), second: batch_of(b"c")})
    assert {partition: each.base_offset for partition, each in produced.items()} == {first: 0, second: 0}
    assert client.produce({first: batch_of(b"d")})[first].base_offset == 2
    fetched = client.fetch(first, 0)
    assert values_of(fetched.records) == [b"a", b"b", b"d"]
    assert (fetched.next_offset, fetched.high_watermark, fetched.log_start_offset) == (3, 3, 0)
    assert fetched.aborted == []


def test_offsets_of_many_partitions_by_end_and_by_time(client: WireClient, servers: str) -> None:
    topic = new_topic(servers, 4)
    partitions = [TopicPartition(topic, index) for index in range(4)]
    early, _ = encode_batch([NewRecord(None, b"x", NOW_MS), NewRecord(None, b"y", NOW_MS + 1000)])
    client.produce(dict.fromkeys(partitions, early))
    assert {each.offset for each in client.list_offsets(dict.fromkeys(partitions, "latest")).values()} == {2}
    assert {each.offset for each in client.list_offsets(dict.fromkeys(partitions, "earliest")).values()} == {0}
    found = client.list_offsets({partitions[0]: NOW_MS + 1, partitions[1]: NOW_MS + 5000})
    assert found[partitions[0]].offset == 1
    assert found[partitions[0]].timestamp == NOW_MS + 1000
    assert found[partitions[1]].offset == -1


def test_a_range_is_read_ahead_in_small_pieces(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    expected = [str(number).encode() * 50 for number in range(300)]
    sender = client.sender(producer=client.init_producer_id())
    for start in range(0, 300, 10):
        sender.send(partition, batch_of(*expected[start : start + 10]))
    offsets = sender.flush()[partition]
    assert [each.base_offset for each in offsets] == list(range(0, 300, 10))
    values: list[bytes | None] = []
    with client.fetch_ahead(partition, 0, 300, FetchOptions(max_bytes=4000)) as answers:
        pieces = 0
        for fetched in answers:
            pieces += 1
            values += values_of(fetched.records)
    assert values == expected
    assert pieces > 10


def test_views_outlast_one_further_fetch(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    for number in range(6):
        client.produce({partition: batch_of(bytes([65 + number]) * 500)})
    held: list[Fetched] = []
    with client.fetch_ahead(partition, 0, 6, FetchOptions(max_bytes=1)) as answers:
        for fetched in answers:
            held.append(fetched)
            assert [values_of(each.records) for each in held[-2:]] == [
                [bytes([65 + len(held) - len(held[-2:]) + index]) * 500] for index in range(len(held[-2:]))
            ]
    assert len(held) == 6


def test_a_batch_larger_than_max_bytes_arrives_whole(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    client.produce({partition: batch_of(b"x" * 100_000)})
    assert values_of(client.fetch(partition, 0, FetchOptions(max_bytes=100)).records) == [b"x" * 100_000]


def test_a_range_that_does_not_fill_is_given_up_by_name(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    client.produce({partition: batch_of(b"a")})
    with client.fetch_ahead(partition, 0, 5, FetchOptions(max_wait_ms=50), timeout_s=0.4) as answers:
        assert values_of(next(answers).records) == [b"a"]
        with pytest.raises(ClientError, match=f"{partition}: no records at offset 1 .*high watermark is 1"):
            next(answers)


def test_connections_that_were_idle_for_long_are_made_anew(servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    with WireClient({"bootstrap.servers": servers, "connections.max.idle.ms": "0"}) as client:
        for number in range(3):
            assert client.produce({partition: batch_of(b"a")})[partition].base_offset == number


def test_a_long_poll_sees_what_is_written_meanwhile(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    with client.fetch_ahead(partition, 0, options=FetchOptions(max_wait_ms=200)) as answers:
        assert not next(answers).records
        client.produce({partition: batch_of(b"late")})
        assert any(values_of(next(answers).records) == [b"late"] for _ in range(5))


def test_an_offset_that_is_not_there_is_refused_by_name(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    with pytest.raises(BrokerError, match=f"{partition} at offset 99") as refused:
        client.fetch(partition, 99)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_unknown_topic_or_partition_is_named(client: WireClient, servers: str) -> None:
    with pytest.raises(UnknownTopic, match="no-such-topic"):
        client.list_offsets({TopicPartition("no-such-topic", 0): "latest"}, timeout_s=0.5)
    with pytest.raises(UnknownTopic, match="partition 7 does not exist"):
        client.fetch(TopicPartition(new_topic(servers), 7), 0, timeout_s=0.5)


def test_a_batch_that_is_too_large_is_refused_at_once(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers, max_message_bytes="1000"), 0)
    with pytest.raises(BrokerError, match=str(partition)) as refused:
        client.produce({partition: batch_of(b"x" * 5000)})
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_many_partitions_share_requests_and_keep_their_order(client: WireClient, servers: str) -> None:
    topic = new_topic(servers, 8)
    sender = client.sender(producer=client.init_producer_id(), request_bytes=2000)
    for number in range(400):
        sender.send(TopicPartition(topic, number % 8), batch_of(str(number).encode() * 20))
    produced = sender.flush()
    assert [each.base_offset for each in produced[TopicPartition(topic, 3)]] == list(range(50))
    values = values_of(client.fetch(TopicPartition(topic, 3), 0).records)
    assert values == [str(number).encode() * 20 for number in range(3, 400, 8)]


def test_acks_0_is_not_waited_for(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    assert client.produce({partition: batch_of(b"a")}, acks=0)[partition].base_offset == -1
    assert eventually(lambda: client.list_offsets({partition: "latest"})[partition].offset == 1)


def test_offsets_of_a_group_without_members(client: WireClient, servers: str) -> None:
    topic, group = new_topic(servers, 2), f"mirror-{uuid4().hex}"
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert client.offset_fetch(group, [first, second]) == {}
    client.offset_commit(group, {first: OffsetAndMetadata(5, "where we are")})
    assert client.offset_fetch(group, [first, second]) == {first: OffsetAndMetadata(5, "where we are")}
    client.offset_commit(group, {first: OffsetAndMetadata(6), second: OffsetAndMetadata(1)})
    assert client.offset_fetch(group) == {first: OffsetAndMetadata(6), second: OffsetAndMetadata(1)}


def test_a_repeated_batch_is_written_once(client: WireClient, servers: str) -> None:
    partition = TopicPartition(new_topic(servers), 0)
    producer = client.init_producer_id()
    for _ in range(3):
        # Each sender counts from 0, so this is the same batch with the same sequence three times.
        sender = client.sender(producer=producer)
        sender.send(partition, batch_of(b"once"))
        sender.flush()
    assert values_of(client.fetch(partition, 0).records) == [b"once"]
    gap = client.sender(producer=producer, first_sequences={partition: 5})
    gap.send(partition, batch_of(b"out of order"))
    with pytest.raises(BrokerError, match=str(partition)) as refused:
        gap.flush()
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
