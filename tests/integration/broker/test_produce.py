"""What a producer is told, and what readers then find: acks, timestamps, compression, refused records, limits."""

from __future__ import annotations

import time

import confluent_kafka
import pytest

from penstock.protocol.compression import Compression
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_batch import parse_header
from penstock.testing import Broker
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.conversation import (
    LATEST,
    PRODUCE_VERSION,
    Topic,
    batch_of,
    batches_in,
    fetch,
    fetch_request,
    list_offset,
    partitions_of,
    produce,
    produce_ok,
    produce_request,
    set_topic_config,
    values_in,
    values_of,
)
from tests.record_batches import Record, encode_batch
from tests.wire_client import ConnectionClosed, WireClient

COMPACTED = {"cleanup.policy": "compact"}
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_an_ack_names_the_offset(client: WireClient, new_topic: NewTopic, acks: int, version: int) -> None:
    topic = new_topic()
    produce_ok(client, topic, b"zero", b"one")

    answer = produce(client, topic, batch_of(b"two"), acks=acks, version=version)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 2)
    assert values_in(fetch(client, topic, 2)) == [b"two"]


def test_acks_0_has_no_answer(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.send(produce_request(topic, {0: batch_of(b"silent")}, acks=0), PRODUCE_VERSION)

    assert list_offset(client, topic, LATEST) == 1, "the next answer is that of the next request"
    assert values_in(fetch(client, topic)) == [b"silent"]


def test_acks_0_that_cannot_be_written_closes_the_connection(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.send(produce_request(topic, {7: batch_of(b"nowhere")}, acks=0), PRODUCE_VERSION)

    assert client.is_closed_by_peer()


def test_other_acks_are_refused(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()

    assert produce(client, topic, batch_of(b"x"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert list_offset(client, topic, LATEST) == 0


def test_a_topic_is_not_asked_for_more_in_sync_replicas_than_it_has(client: WireClient, new_topic: NewTopic) -> None:
    """As Apache Kafka 4: `min.insync.replicas` beyond the replication factor counts as the replication factor."""
    topic = new_topic(configs={"min.insync.replicas": "2"})

    assert produce(client, topic, batch_of(b"all"), acks=-1).error_code == ErrorCode.NONE
    assert produce(client, topic, batch_of(b"one"), acks=1).error_code == ErrorCode.NONE
    assert values_in(fetch(client, topic)) == [b"all", b"one"]


def test_one_partition_s_error_is_not_its_neighbour_s(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    damaged = batch_of(b"damaged")
    damaged[-1] ^= 1

    response = client.ask(produce_request(topic, {0: damaged, 1: batch_of(b"good"), 9: batch_of(b"x")}), 9)

    codes = {answer.index: answer.error_code for answer in response.responses[0].partition_responses}
    assert codes == {
        0: ErrorCode.CORRUPT_MESSAGE,
        1: ErrorCode.NONE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert values_in(fetch(client, topic, partition=1)) == [b"good"]
    assert list_offset(client, topic, LATEST, partition=0) == 0


# Time


def test_create_time_is_the_producer_s(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    batch = encode_batch([Record(b"x", timestamp=1_600_000_000_000), Record(b"y", timestamp=1_600_000_000_500)])

    answer = produce(client, topic, batch)
    header, _ = next(batches_in(fetch(client, topic)))

    assert answer.log_append_time_ms == -1
    assert not header.uses_log_append_time
    assert (header.base_timestamp, header.max_timestamp) == (1_600_000_000_000, 1_600_000_000_500)


def test_log_append_time_is_the_broker_s(shared_broker: Broker, client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = time.time_ns() // 1_000_000

    answer = produce(client, topic, encode_batch([Record(b"x", timestamp=1), Record(b"y", timestamp=2)]))

    after = time.time_ns() // 1_000_000
    assert before <= answer.log_append_time_ms <= after
    header, _ = next(batches_in(fetch(client, topic)))
    assert header.uses_log_append_time
    assert header.max_timestamp == answer.log_append_time_ms
    kinds = {message.timestamp() for message in _consume(shared_broker, topic, 2)}
    assert kinds == {(confluent_kafka.TIMESTAMP_LOG_APPEND_TIME, answer.log_append_time_ms)}


def test_the_time_s_meaning_can_be_changed_live(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce_ok(client, topic, b"created")
    set_topic_config(client, topic, message_timestamp_type="LogAppendTime")
    produce_ok(client, topic, b"appended")

    headers = [next(batches_in(fetch(client, topic, offset)))[0] for offset in (0, 1)]
    assert [header.uses_log_append_time for header in headers] == [False, True]


def test_timestamps_out_of_bounds_are_named_record_by_record(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(configs={"message.timestamp.after.max.ms": "1000"})
    now = time.time_ns() // 1_000_000
    records = [Record(b"good", timestamp=now), Record(b"bad", timestamp=now + 3_600_000)]

    answer = produce(client, topic, encode_batch(records))

    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert list_offset(client, topic, LATEST) == 0


# Compression


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_pass_through_untouched(client: WireClient, new_topic: NewTopic, codec: Compression) -> None:
    topic = new_topic()
    sent = encode_batch([Record(b"abc" * 500), Record(b"def" * 500)], compression=codec)

    produce(client, topic, sent)

    (_, stored), *more = batches_in(fetch(client, topic))
    assert not more
    assert bytes(stored[16:]) == bytes(sent[16:]), "only base offset and leader epoch are the broker's to change"


@pytest.mark.parametrize("sent_as", CODECS)
@pytest.mark.parametrize(
    ("configured", "stored_as"),
    [
        ("uncompressed", Compression.NONE),
        ("gzip", Compression.GZIP),
        ("snappy", Compression.SNAPPY),
        ("lz4", Compression.LZ4),
        ("zstd", Compression.ZSTD),
    ],
)
def test_a_topic_s_compression_type_recompresses(
    shared_broker: Broker,
    client: WireClient,
    new_topic: NewTopic,
    sent_as: Compression,
    configured: str,
    stored_as: Compression,
) -> None:
    topic = new_topic(configs={"compression.type": configured})
    values = [b"abc" * 500, b"def" * 500]

    answer = produce(client, topic, encode_batch([Record(value) for value in values], compression=sent_as))

    assert answer.error_code == ErrorCode.NONE
    header, stored = next(batches_in(fetch(client, topic)))
    assert header.compression == stored_as
    assert values_of(header, stored) == values


def test_recompressed_batches_are_read_by_librdkafka(
    shared_broker: Broker, client: WireClient, new_topic: NewTopic
) -> None:
    for configured in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        topic = new_topic(configs={"compression.type": configured})
        produce(client, topic, encode_batch([Record(b"abc" * 500)], compression=Compression.GZIP))
        assert [message.value() for message in _consume(shared_broker, topic, 1)] == [b"abc" * 500]


def test_recompression_keeps_the_producer_s_sequence(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(configs={"compression.type": "zstd"})
    batch = encode_batch([Record(b"once")], producer=(4001, 0, 0))

    assert produce(client, topic, bytes(batch)).base_offset == 0
    repeated = produce(client, topic, bytes(batch))

    assert (repeated.error_code, repeated.base_offset) == (ErrorCode.NONE, 0)
    assert list_offset(client, topic, LATEST) == 1


# Refused records


@pytest.mark.parametrize("version", [8, 9, 12])
def test_a_compacted_topic_names_the_records_without_a_key(
    client: WireClient, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(configs=COMPACTED)
    records = [Record(b"a", key=b"k"), Record(b"b"), Record(None, key=b""), Record(b"d")]

    answer = produce(client, topic, encode_batch(records), version=version)

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all(error.batch_index_error_message for error in answer.record_errors)
    assert answer.error_message
    assert list_offset(client, topic, LATEST) == 0, "the batch is refused as a whole"


def test_a_compacted_topic_takes_keys_in_every_codec(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(configs=COMPACTED)

    for codec in CODECS:
        batch = encode_batch([Record(b"v", key=b"k"), Record(None, key=b"gone")], compression=codec)
        assert produce(client, topic, batch).error_code == ErrorCode.NONE
    assert list_offset(client, topic, LATEST) == 2 * len(CODECS)


# Limits


def test_max_message_bytes_can_be_changed_live(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    batch = batch_of(b"x" * 5000)
    assert produce(client, topic, batch).error_code == ErrorCode.NONE

    set_topic_config(client, topic, max_message_bytes=str(len(batch) - 1))
    assert produce(client, topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE

    set_topic_config(client, topic, max_message_bytes=str(len(batch)))
    assert produce(client, topic, batch).error_code == ErrorCode.NONE
    assert list_offset(client, topic, LATEST) == 2


def test_a_record_of_20_megabytes(shared_broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(configs={"max.message.bytes": "30000000"})
    value = bytes(range(256)) * (20 * 4096)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": shared_broker.bootstrap_servers, "message.max.bytes": 25_000_000}
    )
    errors: list[confluent_kafka.KafkaError | None] = []
    producer.produce(topic.name, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert errors == [None]

    limits = {"fetch.message.max.bytes": 30_000_000, "receive.message.max.bytes": 60_000_000}
    (message,) = _consume(shared_broker, topic, 1, **limits)

    assert message.value() == value


def test_a_request_beyond_socket_request_max_bytes_closes_the_connection() -> None:
    with (
        Broker(config={"socket.request.max.bytes": "10000"}) as broker,
        WireClient(broker.bootstrap_servers) as neighbour,
        WireClient(broker.bootstrap_servers) as client,
    ):
        client.send_raw((10_001).to_bytes(4, "big"))
        assert client.is_closed_by_peer()
        with pytest.raises(ConnectionClosed):
            client.receive_exactly(1)
        topic = Topic("unknown", bytes(16))
        assert produce(neighbour, topic, batch_of(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Sequences


def test_a_repeated_batch_is_acknowledged_and_not_written_again(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    batches = [bytes(encode_batch([Record(b"%d" % n)], producer=(77, 0, n))) for n in range(7)]
    for batch in batches:
        assert produce(client, topic, batch).error_code == ErrorCode.NONE

    answers = [produce(client, topic, batch) for batch in batches]

    told = [(answer.error_code, answer.base_offset) for answer in answers]
    assert told[2:] == [(ErrorCode.NONE, offset) for offset in range(2, 7)], "the last five are remembered"
    assert {code for code, _ in told[:2]} == {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert list_offset(client, topic, LATEST) == 7


def test_a_gap_in_the_sequence_is_refused(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce(client, topic, encode_batch([Record(b"0")], producer=(78, 0, 0)))

    answer = produce(client, topic, encode_batch([Record(b"2")], producer=(78, 0, 2)))

    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert list_offset(client, topic, LATEST) == 1


def test_repeats_that_are_pipelined_with_their_original_are_found(client: WireClient, new_topic: NewTopic) -> None:
    """Both are in one socket read, so the original is staged and not yet written when its repeat arrives."""
    topic = new_topic()
    batch = bytes(encode_batch([Record(b"once")], producer=(79, 0, 0)))
    ids = [client.send(produce_request(topic, {0: batch}), PRODUCE_VERSION) for _ in range(3)]

    answers = [client.receive(0, PRODUCE_VERSION, each).responses[0].partition_responses[0] for each in ids]

    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(ErrorCode.NONE, 0)] * 3
    assert parse_header(fetch(client, topic).records or b"").records_count == 1
    assert partitions_of(client.ask(fetch_request(topic, {0: 1}), 16))[0].high_watermark == 1


def _consume(broker: Broker, topic: Topic, count: int, **settings: int) -> list[confluent_kafka.Message]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "check.crcs": True, **settings}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic.name, 0, 0)])
        messages = consumer.consume(count, timeout=20)
        assert [message.error() for message in messages] == [None] * count
        return list(messages)
    finally:
        consumer.close()
