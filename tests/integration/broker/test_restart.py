"""Stopping and coming back: a clean stop keeps everything and has nothing to repair, and so does what a kill leaves."""

from __future__ import annotations

import json
import os
import select
import signal
import time

import pytest

from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.integration.broker.conversation import (
    EARLIEST,
    FETCH_VERSION,
    LATEST,
    batches_in,
    create_topic,
    delete_records,
    fetch,
    fetch_request,
    list_offset,
    partitions_of,
    produce,
    produce_ok,
    set_topic_config,
    values_in,
)
from tests.record_batches import Record, encode_batch
from tests.wire_client import WireClient

CLEAN_MARKER = ".kafka_cleanshutdown"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_everything_is_there_after_a_restart(own_broker: Broker, end: str) -> None:
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "kept", partitions=2, configs={"internal.segment.bytes": "3000"})
        set_topic_config(client, topic, max_message_bytes="2000")
        for number in range(12):
            produce_ok(client, topic, b"%d" % number * 700, partition=1)
        sequenced = bytes(encode_batch([Record(b"once")], producer=(900, 0, 0)))
        produce(client, topic, sequenced)
        before = [bytes(batch) for at in range(12) for _, batch in batches_in(fetch(client, topic, at, partition=1))]
    getattr(own_broker, end)()
    assert (own_broker.data_dir / CLEAN_MARKER).exists() is (end == "stop")
    own_broker.start()

    assert not (own_broker.data_dir / CLEAN_MARKER).exists(), "a marker that stays would hide the next crash"
    assert own_broker.stderr_text().splitlines()[1:] == [], "there was nothing to repair"
    with WireClient(own_broker.bootstrap_servers) as client:
        after = [bytes(batch) for at in range(12) for _, batch in batches_in(fetch(client, topic, at, partition=1))]
        assert after == before
        repeated = produce(client, topic, sequenced)
        assert (repeated.error_code, repeated.base_offset) == (ErrorCode.NONE, 0)
        assert list_offset(client, topic, LATEST, partition=0) == 1
        assert produce(client, topic, encode_batch([Record(b"x" * 2000)])).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert produce_ok(client, topic, b"more", partition=1) == 12


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("segment_bytes", ["1000000", "1500"], ids=["one segment", "a segment for each batch"])
def test_all_that_a_producer_had_in_flight_is_recognised(own_broker: Broker, end: str, segment_bytes: str) -> None:
    """Five batches were written and no ack arrived, so the producer sends all of them again, the oldest first."""
    batches = [bytes(encode_batch([Record(b"%d" % n * 1000)], producer=(901, 0, n))) for n in range(8)]
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "in-flight", configs={"internal.segment.bytes": segment_bytes})
        for batch in batches:
            assert produce(client, topic, batch).error_code == ErrorCode.NONE
    getattr(own_broker, end)()
    own_broker.start()

    with WireClient(own_broker.bootstrap_servers) as client:
        answers = [produce(client, topic, batch) for batch in batches[-5:]]

        assert [(answer.error_code, answer.base_offset) for answer in answers] == [
            (ErrorCode.NONE, offset) for offset in range(3, 8)
        ]
        assert list_offset(client, topic, LATEST) == 8


def test_a_clean_start_scans_nothing(own_broker: Broker) -> None:
    """A damaged byte in the middle is not met before somebody reads it; after a kill it is met at the start."""
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "large")
        for _ in range(3):
            produce_ok(client, topic, b"x" * 900_000)
    segment = own_broker.data_dir / "large-0" / f"{0:020d}.log"

    own_broker.stop()
    with segment.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"y")
    own_broker.start()

    assert own_broker.stderr_text().splitlines()[1:] == []
    with WireClient(own_broker.bootstrap_servers) as client:
        assert list_offset(client, topic, LATEST) == 3
        assert values_in(fetch(client, topic, 0))[0] == b"x" * 900_000
        assert fetch(client, topic, 1).error_code == ErrorCode.CORRUPT_MESSAGE
        assert values_in(fetch(client, topic, 2)) == [b"x" * 900_000]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_deleted_records_stay_deleted(own_broker: Broker, end: str) -> None:
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "shortened", configs={"internal.segment.bytes": "3000"})
        for number in range(20):
            produce_ok(client, topic, b"%02d" % number * 400)
        assert delete_records(client, topic, 21).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert delete_records(client, topic, 13).low_watermark == 13
        assert delete_records(client, topic, 5).low_watermark == 13, "it never goes back"
    getattr(own_broker, end)()
    own_broker.start()

    with WireClient(own_broker.bootstrap_servers) as client:
        assert list_offset(client, topic, EARLIEST) == 13
        assert list_offset(client, topic, LATEST) == 20
        assert fetch(client, topic, 12).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        data = fetch(client, topic, 13)
        assert data.log_start_offset == 13
        assert b"13" * 400 in values_in(data)
        assert delete_records(client, topic, -1).low_watermark == 20
    getattr(own_broker, end)()
    own_broker.start()

    with WireClient(own_broker.bootstrap_servers) as client:
        assert (list_offset(client, topic, EARLIEST), list_offset(client, topic, LATEST)) == (20, 20)
        assert produce_ok(client, topic, b"next") == 20
        assert values_in(fetch(client, topic, 20)) == [b"next"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_prompt_whoever_is_connected(own_broker: Broker, number: signal.Signals) -> None:
    runtime_file = own_broker.data_dir / "broker.json"
    assert json.loads(runtime_file.read_text()) == {
        "host": "127.0.0.1",
        "port": own_broker.port,
        "listeners": {"PLAINTEXT": own_broker.bootstrap_servers},
        "pid": own_broker.pid,
    }
    clients = [WireClient(own_broker.bootstrap_servers) for _ in range(20)]
    try:
        topic = create_topic(clients[0], "awaited")
        produce_ok(clients[0], topic, b"acked")
        for client in clients[:10]:
            client.send(fetch_request(topic, {0: 1}, max_wait_ms=600_000), FETCH_VERSION)
        clients[11].send_raw(b"\0\0\0\x20half a request")
        time.sleep(0.1)

        os.kill(own_broker.pid, number)
        deadline = time.monotonic() + 60  # a tenth of what the fetches wait
        while own_broker.is_running():
            assert time.monotonic() < deadline
            time.sleep(0.01)

        assert all(client.is_closed_by_peer() for client in clients)
    finally:
        for client in clients:
            client.close()
    assert not runtime_file.exists()
    assert (own_broker.data_dir / CLEAN_MARKER).exists()
    own_broker.kill()
    own_broker.start()
    with WireClient(own_broker.bootstrap_servers) as client:
        assert values_in(fetch(client, topic)) == [b"acked"]


def test_the_exit_code_of_a_stop_is_0(own_broker: Broker) -> None:
    """`stop` raises on any other."""
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "awaited")
        client.send(fetch_request(topic, {0: 0}, max_wait_ms=60_000), FETCH_VERSION)
        assert not select.select([client.socket], [], [], 0.1)[0]
        own_broker.stop()


def test_a_fetch_that_was_parked_can_be_asked_again(own_broker: Broker) -> None:
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "awaited")
        opened = client.ask(fetch_request(topic, {0: 0}, session_epoch=0), FETCH_VERSION)
    own_broker.restart()

    with WireClient(own_broker.bootstrap_servers) as client:
        request = fetch_request(topic, {}, session_id=opened.session_id, session_epoch=1)
        assert client.ask(request, FETCH_VERSION).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        produce_ok(client, topic, b"x")
        assert values_in(partitions_of(client.ask(fetch_request(topic, {0: 0}), FETCH_VERSION))[0]) == [b"x"]
