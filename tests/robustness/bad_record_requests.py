"""Bad requests to the APIs that carry records or speak of offsets, with Kafka's code for each."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any, Final

from penstock.protocol.compression import Compression
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.definitions.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.error_codes import ErrorCode as E
from penstock.protocol.record_batch import HEADER_BYTES
from tests.record_batches import Record, encode_batch
from tests.robustness.bad_requests import OK, Case, Outcome, Target, code_of

ONE: Final = [Record()]
TWO: Final = [Record(b"a"), Record(b"b")]
UNKNOWN_ID: Final = b"no topic has this"[:16]
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

Batch = Callable[[], bytes | bytearray | None]


def produce(name: str, batch: Batch, expected: Outcome, *, version: int = 9) -> Case:
    return Case(f"produce: {name}", lambda target: target.produce(batch(), version=version), expected)


def _garbage_under_gzip() -> bytearray:
    good = encode_batch(ONE)
    return encode_batch(ONE, attributes=Compression.GZIP, batch_length=len(good) - 12)


def _wrong_record_length() -> bytearray:
    """The header and the CRC hold; the first record says that it is longer than the batch."""
    batch = encode_batch(ONE)
    batch[HEADER_BYTES] = 0x7E
    from crc32c import crc32c

    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return batch


def _no_key(target: Target) -> Outcome:
    topic, _ = target.new_topic({"cleanup.policy": "compact"})
    return target.produce(encode_batch([Record(key=b"k"), Record(key=None)]), topic=topic)


def _too_large(target: Target) -> Outcome:
    topic, _ = target.new_topic({"max.message.bytes": "1000"})
    return target.produce(encode_batch([Record(bytes(1000))]), topic=topic)


def _too_few_replicas(target: Target) -> Outcome:
    topic, _ = target.new_topic({"min.insync.replicas": "2"})
    return target.produce(encode_batch(ONE), topic=topic)


def _in_the_future() -> bytearray:
    return encode_batch([Record(timestamp=int(time.time() * 1000) + 2 * 3_600_000)])


def _producer_batches(*batches: tuple[int, int]) -> Callable[[Target], Outcome]:
    """Batches of one producer, given as (epoch, sequence), to a topic of their own; the last one's code."""

    def ask(target: Target) -> Outcome:
        response = target.ask(InitProducerIdRequest(), 4)
        topic, _ = target.new_topic()
        codes = [
            target.produce(encode_batch(TWO, producer=(response.producer_id, epoch, sequence)), topic=topic)
            for epoch, sequence in batches
        ]
        assert codes[:-1] == [OK] * (len(codes) - 1)
        return codes[-1]

    return ask


def _same_partition_twice(target: Target) -> Outcome:
    data = [PartitionProduceData(index=0, records=encode_batch(ONE)) for _ in range(2)]
    topics = [TopicProduceData(name=target.topic, partition_data=data)]
    response = target.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 9)
    return code_of(response, ("responses", "partition_responses"))


def _without_transaction(target: Target) -> Outcome:
    batch = encode_batch(ONE, attributes=TRANSACTIONAL, producer=(5, 0, 0))
    return target.produce(batch, transactional_id="t")


PRODUCE_CASES: Final = (
    produce("nothing wrong", lambda: encode_batch(ONE), OK),
    produce("no records", lambda: None, E.INVALID_RECORD),
    produce("empty records", lambda: b"", E.INVALID_RECORD),
    produce("a header cut short", lambda: encode_batch(ONE)[:40], E.INVALID_RECORD),
    produce("its length cut short", lambda: encode_batch(ONE)[:10], E.INVALID_RECORD),
    produce("its last byte missing", lambda: encode_batch(ONE)[:-1], E.INVALID_RECORD),
    produce("a byte too many", lambda: encode_batch(ONE) + b"\0", E.INVALID_RECORD),
    produce("two batches", lambda: encode_batch(ONE) + bytes(encode_batch(ONE)), E.INVALID_RECORD),
    produce("wrong CRC", lambda: encode_batch(ONE, crc=1), E.CORRUPT_MESSAGE),
    produce("magic 0", lambda: encode_batch(ONE, magic=0), E.INVALID_RECORD),
    produce("magic 1", lambda: encode_batch(ONE, magic=1), E.INVALID_RECORD),
    produce("magic 3", lambda: encode_batch(ONE, magic=3), E.CORRUPT_MESSAGE),
    produce("magic -1", lambda: encode_batch(ONE, magic=-1), E.CORRUPT_MESSAGE),
    produce("batch length 0", lambda: encode_batch(ONE, batch_length=0), E.CORRUPT_MESSAGE),
    produce("batch length -1", lambda: encode_batch(ONE, batch_length=-1), E.CORRUPT_MESSAGE),
    produce("batch length 2^31-1", lambda: encode_batch(ONE, batch_length=2**31 - 1), E.INVALID_RECORD),
    produce("counts more than it has", lambda: encode_batch(TWO, records_count=3), E.INVALID_RECORD),
    produce("counts less than it has", lambda: encode_batch(TWO, records_count=1), E.INVALID_RECORD),
    produce("counts nothing", lambda: encode_batch(ONE, records_count=0), E.INVALID_RECORD),
    produce("counts -1", lambda: encode_batch(ONE, records_count=-1), E.INVALID_RECORD),
    produce("last offset delta -1", lambda: encode_batch(ONE, last_offset_delta=-1), E.INVALID_RECORD),
    produce("last offset delta 5", lambda: encode_batch(ONE, last_offset_delta=5), E.INVALID_RECORD),
    produce(
        "count and delta agree on too many",
        lambda: encode_batch(ONE, last_offset_delta=4, records_count=5),
        OK,
    ),
    produce("base offset 5", lambda: encode_batch(ONE, base_offset=5), E.INVALID_RECORD),
    produce("a control batch", lambda: encode_batch(ONE, attributes=CONTROL), E.INVALID_RECORD),
    produce("compression 5", lambda: encode_batch(ONE, attributes=5), E.INVALID_RECORD),
    produce("compression 7", lambda: encode_batch(ONE, attributes=7), E.INVALID_RECORD),
    produce("no gzip under the gzip flag", _garbage_under_gzip, OK),
    produce("a record longer than its batch", _wrong_record_length, OK),
    produce("a producer without an epoch", lambda: encode_batch(ONE, producer=(5, -1, 0)), E.INVALID_RECORD),
    produce("a producer without a sequence", lambda: encode_batch(ONE, producer=(5, 0, -1)), E.INVALID_RECORD),
    produce("a timestamp in the future", _in_the_future, E.INVALID_TIMESTAMP),
    produce(
        "zstd in version 6",
        lambda: encode_batch(ONE, compression=Compression.ZSTD),
        E.UNSUPPORTED_COMPRESSION_TYPE,
        version=6,
    ),
    produce(
        "transactional without a transactional id",
        lambda: encode_batch(ONE, attributes=TRANSACTIONAL, producer=(5, 0, 0)),
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    Case("produce: transactional without a transaction", _without_transaction, E.INVALID_PRODUCER_ID_MAPPING),
    Case("produce: no key in a compacted topic", _no_key, E.INVALID_RECORD),
    Case("produce: larger than max.message.bytes", _too_large, E.MESSAGE_TOO_LARGE),
    Case("produce: more in-sync replicas wanted than the topic has", _too_few_replicas, OK),
    Case("produce: acks 2", lambda t: t.produce(encode_batch(ONE), acks=2), E.INVALID_REQUIRED_ACKS),
    Case("produce: acks -2", lambda t: t.produce(encode_batch(ONE), acks=-2), E.INVALID_REQUIRED_ACKS),
    Case(
        "produce: unknown topic",
        lambda t: t.produce(encode_batch(ONE), topic="unknown"),
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    Case("produce: invalid topic", lambda t: t.produce(encode_batch(ONE), topic="a b"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("produce: partition 1", lambda t: t.produce(encode_batch(ONE), index=1), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("produce: partition -1", lambda t: t.produce(encode_batch(ONE), index=-1), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case(
        "produce: unknown topic id",
        lambda t: t.produce(encode_batch(ONE), topic_id=UNKNOWN_ID, version=13),
        E.UNKNOWN_TOPIC_ID,
    ),
    Case(
        "produce: no topic id",
        lambda t: t.produce(encode_batch(ONE), topic_id=bytes(16), version=13),
        E.UNKNOWN_TOPIC_ID,
    ),
    Case("produce: acks 0 and a bad batch", lambda t: t.produce(b"", acks=0), "closed"),
    Case("produce: acks 0 and no topic", lambda t: t.produce(encode_batch(ONE), topic="unknown", acks=0), "closed"),
    Case("produce: a sequence again", _producer_batches((0, 0), (0, 2), (0, 0)), OK),
    Case("produce: a sequence left out", _producer_batches((0, 0), (0, 4)), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    Case("produce: half a sequence again", _producer_batches((0, 0), (0, 1)), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    Case("produce: an unknown producer begins with 7", _producer_batches((0, 7)), OK),
    Case("produce: an old epoch", _producer_batches((1, 0), (0, 2)), E.INVALID_PRODUCER_EPOCH),
    Case("produce: a new epoch begins with 2", _producer_batches((0, 0), (1, 2)), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    Case("produce: the same partition twice", _same_partition_twice, OK),
)


def _session(epoch: int, *, use_ids: bool = False) -> Callable[[Target], Outcome]:
    """A session is opened with version 12, then continued with this epoch."""

    def ask(target: Target) -> Outcome:
        wanted = FetchTopic(topic=target.topic, partitions=[FetchPartition(partition_max_bytes=1000)])
        opened = target.ask(FetchRequest(session_epoch=0, topics=[wanted]), 12)
        assert opened.session_id
        return target.fetch(session_id=opened.session_id, session_epoch=epoch, version=13 if use_ids else 12)

    return ask


FETCH_CASES: Final = (
    Case("fetch: nothing wrong", lambda t: t.fetch(), OK),
    Case("fetch: at the end", lambda t: t.fetch(topic=t.new_topic()[0], offset=0), OK),
    Case("fetch: beyond the end", lambda t: t.fetch(offset=1_000_000), E.OFFSET_OUT_OF_RANGE),
    Case("fetch: offset -1", lambda t: t.fetch(offset=-1), E.OFFSET_OUT_OF_RANGE),
    Case("fetch: offset -2^63", lambda t: t.fetch(offset=-(2**63)), E.OFFSET_OUT_OF_RANGE),
    Case("fetch: unknown topic", lambda t: t.fetch(topic="unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("fetch: empty topic name", lambda t: t.fetch(topic=""), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("fetch: partition 7", lambda t: t.fetch(partition=7), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("fetch: partition -1", lambda t: t.fetch(partition=-1), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("fetch: unknown topic id", lambda t: t.fetch(topic_id=UNKNOWN_ID, version=16), E.UNKNOWN_TOPIC_ID),
    Case("fetch: no topic id", lambda t: t.fetch(topic_id=bytes(16), version=16), E.UNKNOWN_TOPIC_ID),
    Case("fetch: a newer leader epoch", lambda t: t.fetch(current_leader_epoch=9), E.UNKNOWN_LEADER_EPOCH),
    Case("fetch: leader epoch -5", lambda t: t.fetch(current_leader_epoch=-5), OK),
    Case("fetch: last fetched epoch 9", lambda t: t.fetch(last_fetched_epoch=9), E.OFFSET_OUT_OF_RANGE),
    Case("fetch: no room at all", lambda t: t.fetch(max_bytes=0, partition_max_bytes=0), OK),
    Case("fetch: less than no room", lambda t: t.fetch(max_bytes=-5, partition_max_bytes=-5), OK),
    Case("fetch: waits -1 ms", lambda t: t.fetch(max_wait_ms=-1, min_bytes=10_000), OK),
    Case("fetch: isolation level 7", lambda t: t.fetch(isolation_level=7), OK),
    Case(
        "fetch: unknown session",
        lambda t: t.fetch(session_id=123, session_epoch=1),
        E.FETCH_SESSION_ID_NOT_FOUND,
    ),
    Case("fetch: session 0 goes on", lambda t: t.fetch(session_id=0, session_epoch=1), E.FETCH_SESSION_ID_NOT_FOUND),
    Case("fetch: unknown session ends", lambda t: t.fetch(session_id=123, session_epoch=-1), OK),
    Case("fetch: session epoch -5", lambda t: t.fetch(session_id=0, session_epoch=-5), E.FETCH_SESSION_ID_NOT_FOUND),
    Case("fetch: a session's next epoch", _session(1), OK),
    Case("fetch: a session's epoch left out", _session(2), E.INVALID_FETCH_SESSION_EPOCH),
    Case("fetch: a session's epoch -5", _session(-5), E.INVALID_FETCH_SESSION_EPOCH),
    Case("fetch: a session of names with ids", _session(1, use_ids=True), E.FETCH_SESSION_TOPIC_ID_ERROR),
)


def _delete_records(offset: int, **where: str | int) -> Callable[[Target], Outcome]:
    def ask(target: Target) -> Outcome:
        partition = DeleteRecordsPartition(partition_index=int(where.get("partition", 0)), offset=offset)
        topic = DeleteRecordsTopic(name=str(where.get("topic", target.topic)), partitions=[partition])
        return code_of(target.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), 2), ("topics", "partitions"))

    return ask


def _end_of_epoch(
    *, topic: str | None = None, partition: int = 0, current_leader_epoch: int = -1, leader_epoch: int = 0
) -> Callable[[Target], Outcome]:
    def ask(target: Target) -> Outcome:
        wanted = OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch
        )
        topics = [OffsetForLeaderTopic(topic=target.topic if topic is None else topic, partitions=[wanted])]
        return code_of(
            target.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4), ("topics", "partitions")
        )

    return ask


def _init(version: int = 4, **fields: Any) -> Callable[[Target], Outcome]:
    return lambda target: code_of(target.ask(InitProducerIdRequest(**fields), version), ())


OFFSET_CASES: Final = (
    Case("list offsets: nothing wrong", lambda t: t.list_offsets(-1), OK),
    Case("list offsets: a time after the last", lambda t: t.list_offsets(2**62), OK),
    Case("list offsets: time -7", lambda t: t.list_offsets(-7), E.UNSUPPORTED_VERSION),
    Case("list offsets: time -2^63", lambda t: t.list_offsets(-(2**63)), E.UNSUPPORTED_VERSION),
    Case("list offsets: maximum time in version 6", lambda t: t.list_offsets(-3, version=6), E.UNSUPPORTED_VERSION),
    Case("list offsets: local start in version 7", lambda t: t.list_offsets(-4, version=7), E.UNSUPPORTED_VERSION),
    Case("list offsets: tiered end in version 8", lambda t: t.list_offsets(-5, version=8), E.UNSUPPORTED_VERSION),
    Case("list offsets: pending upload in version 10", lambda t: t.list_offsets(-6, version=10), E.UNSUPPORTED_VERSION),
    Case("list offsets: unknown topic", lambda t: t.list_offsets(-1, topic="unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("list offsets: partition 7", lambda t: t.list_offsets(-1, partition=7), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("list offsets: partition -1", lambda t: t.list_offsets(-1, partition=-1), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case(
        "list offsets: a newer leader epoch",
        lambda t: t.list_offsets(-1, current_leader_epoch=9),
        E.UNKNOWN_LEADER_EPOCH,
    ),
    Case("list offsets: a partition twice", lambda t: t.list_offsets(-1, times=2), E.INVALID_REQUEST),
    Case("delete records: beyond the end", _delete_records(1_000_000), E.OFFSET_OUT_OF_RANGE),
    Case("delete records: offset -2", _delete_records(-2), E.OFFSET_OUT_OF_RANGE),
    Case("delete records: unknown topic", _delete_records(0, topic="unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("delete records: partition 7", _delete_records(0, partition=7), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("leader epoch: nothing wrong", _end_of_epoch(), OK),
    Case("leader epoch: a newer one", _end_of_epoch(leader_epoch=9), OK),
    Case("leader epoch: -5", _end_of_epoch(leader_epoch=-5), OK),
    Case("leader epoch: a newer current one", _end_of_epoch(current_leader_epoch=9), E.UNKNOWN_LEADER_EPOCH),
    Case("leader epoch: unknown topic", _end_of_epoch(topic="unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("leader epoch: partition 7", _end_of_epoch(partition=7), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("init producer id: nothing wrong", _init(), OK),
    Case("init producer id: an empty transactional id", _init(transactional_id=""), E.INVALID_REQUEST),
    Case("init producer id: a producer id alone", _init(producer_id=5), E.INVALID_REQUEST),
    Case("init producer id: an epoch alone", _init(producer_epoch=5), E.INVALID_REQUEST),
    Case("init producer id: both", _init(producer_id=5, producer_epoch=5), OK),
)
