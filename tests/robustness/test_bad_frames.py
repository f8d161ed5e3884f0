"""Peers that do not speak Kafka, or speak it badly: the right answer or a closed connection, and nobody else notices.

Every test runs beside a neighbour that produces and consumes all the time; afterwards what the neighbour wrote must be
there exactly, the broker's memory must be about what it was, and it must have printed nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from penstock.broker.router import ROUTES
from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.clients.waiting import eventually
from tests.record_batches import Record, encode_batch
from tests.robustness.neighbour import MEGABYTE, Neighbour, resident_bytes
from tests.robustness.printed_lines import unexpected_lines
from tests.wire_client import ConnectionClosed, WireClient, encode_request, framed, request_header

REQUEST_BYTES_MAX = 100 * MEGABYTE
RESIDENT_GROWTH_MAX = 30 * MEGABYTE
NEIGHBOUR_WAIT_S_MAX = 3.0

TLS_CLIENT_HELLO = bytes.fromhex("16030100a5010000a10303") + bytes(range(32)) + bytes(120)
HTTP_GET = b"GET /topics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
API_VERSIONS = encode_request(ApiVersionsRequest(), 0, 77)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"auto.create.topics.enable": "false"}) as started:
        with Neighbour(started.bootstrap_servers) as warming_up:
            warming_up.await_progress()
        yield started
        printed = unexpected_lines(started)
        assert not printed, printed


@pytest.fixture(autouse=True)
def _neighbour(broker: Broker) -> Iterator[None]:
    """Unharmed before, during and after."""
    resident_before = resident_bytes(broker.pid)
    with Neighbour(broker.bootstrap_servers) as neighbour:
        neighbour.await_progress()
        yield
        neighbour.await_progress()
        growth = resident_bytes(broker.pid) - resident_before
    assert neighbour.longest_wait_s < NEIGHBOUR_WAIT_S_MAX
    assert growth < RESIDENT_GROWTH_MAX, f"the broker grew by {growth / MEGABYTE:.1f} MB"


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers, timeout_s=20) as connected:
        yield connected


def assert_speaks_kafka(client: WireClient) -> None:
    assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE


def new_topic(client: WireClient) -> str:
    name = f"bad-frames-{uuid4().hex}"
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    (created,) = client.ask(CreateTopicsRequest(topics=[wanted]), 5).topics
    assert created.error_code == ErrorCode.NONE
    return name


def produce(client: WireClient, topic: str, value: bytes, *, acks: int = 1) -> int:
    data = PartitionProduceData(index=0, records=encode_batch([Record(value)]))
    request = ProduceRequest(acks=acks, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    return client.send(request, 9)


def fetch(topic: str, *, offset: int = 0, max_wait_ms: int = 0, min_bytes: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MEGABYTE)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=50 * MEGABYTE,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


# Sizes


@pytest.mark.parametrize(
    "size",
    [REQUEST_BYTES_MAX + 1, 2**31 - 1, -1, -(2**31), 0],
    ids=["one byte too long", "2^31-1", "-1", "-2^31", "0"],
)
def test_a_frame_of_an_impossible_size_closes_the_connection(client: WireClient, size: int) -> None:
    client.send_raw(struct.pack(">i", size))
    assert client.is_closed_by_peer()


def test_a_smaller_limit_is_obeyed_to_the_byte() -> None:
    with Broker(config={"socket.request.max.bytes": "1000"}) as small:
        for size, is_allowed in ((1000, True), (1001, False)):
            with WireClient(small.bootstrap_servers) as client:
                header = request_header(18, 3, 5)
                name_bytes = size - len(header) - 5
                # A compact string: its length plus one as a varint of two bytes.
                name = bytes([(name_bytes + 1) & 0x7F | 0x80, (name_bytes + 1) >> 7]) + b"x" * name_bytes
                content = header + name + b"\x02" + b"1" + b"\0"
                assert len(content) == size
                client.send_raw(framed(content))
                if is_allowed:
                    assert client.receive(18, 3, 5).error_code == ErrorCode.NONE
                else:
                    assert client.is_closed_by_peer()


def test_announcing_much_and_sending_nothing_costs_nothing(broker: Broker) -> None:
    before = resident_bytes(broker.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            liar = stack.enter_context(WireClient(broker.bootstrap_servers))
            liar.send_raw(struct.pack(">i", REQUEST_BYTES_MAX))
        time.sleep(0.2)
        assert resident_bytes(broker.pid) - before < 10 * MEGABYTE


def test_a_large_frame_is_taken_and_its_memory_given_back(broker: Broker, client: WireClient) -> None:
    before = resident_bytes(broker.pid)
    topic = new_topic(client)
    correlation_id = produce(client, topic, bytes(90 * MEGABYTE))
    (response,) = client.receive(0, 9, correlation_id).responses
    assert response.partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert_speaks_kafka(client)
    assert resident_bytes(broker.pid) - before < 10 * MEGABYTE


# What is no request


@pytest.mark.parametrize(
    "garbage",
    [HTTP_GET, TLS_CLIENT_HELLO, b"\n" * 1000, bytes(1000), b"\xff" * 1000, b"SSH-2.0-OpenSSH_9.2\r\n"],
    ids=["HTTP", "TLS", "newlines", "zeros", "ones", "SSH"],
)
def test_another_protocol_closes_the_connection(client: WireClient, garbage: bytes) -> None:
    with contextlib.suppress(ConnectionClosed):
        client.send_raw(garbage)
    assert client.is_closed_by_peer()


@pytest.mark.parametrize("api_key", [-1, 4, 7, 94, 1000, 32767])
def test_an_unknown_api_closes_the_connection(client: WireClient, api_key: int) -> None:
    client.send_raw(framed(request_header(api_key, 0, 1, flexible=False)))
    assert client.is_closed_by_peer()


@pytest.mark.parametrize("version", [-1, 5, 100, 32767])
def test_an_unknown_version_of_api_versions_is_answered_with_the_known_ones(client: WireClient, version: int) -> None:
    client.send_raw(framed(request_header(18, version, 9, flexible=version > 0) + b"\x05whatever may come here"))
    response = client.receive(18, 0, 9)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    known = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
    assert known == {route.api_key: (route.advertised_from, route.max_version) for route in ROUTES}
    assert_speaks_kafka(client)


def test_an_unknown_version_of_any_other_api_closes_the_connection(broker: Broker) -> None:
    for route in ROUTES:
        if route.api_key == 18:
            continue
        for version in (route.max_version + 1, route.min_version - 1, -1, 32767):
            with WireClient(broker.bootstrap_servers) as client:
                client.send_raw(framed(request_header(route.api_key, version, 1, flexible=True) + bytes(50)))
                assert client.is_closed_by_peer(), (route.name, version)


def test_requests_cut_anywhere_close_the_connection(broker: Broker) -> None:
    request = encode_request(fetch("cut"), 12, 1)
    for length in range(len(request)):
        with WireClient(broker.bootstrap_servers) as client:
            client.send_raw(framed(request[:length]))
            assert client.is_closed_by_peer(), f"cut to {length} bytes"


def test_bytes_behind_a_request_are_passed_over(client: WireClient) -> None:
    """As Apache Kafka does. They must not be taken for the next request, either."""
    client.send_raw(framed(API_VERSIONS + framed(API_VERSIONS)))
    assert client.receive(18, 0, 77).error_code == ErrorCode.NONE
    assert_speaks_kafka(client)


@pytest.mark.parametrize(
    ("version", "array"),
    [
        (1, struct.pack(">i", 2**31 - 1)),
        (1, struct.pack(">i", 1000)),
        (12, b"\xff\xff\xff\xff\x0f"),
        (12, b"\xff\xff\xff\xff\x07"),
        (12, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
        (12, b"\xe8\x07"),
    ],
)
def test_an_array_longer_than_its_frame_closes_the_connection(client: WireClient, version: int, array: bytes) -> None:
    client.send_raw(framed(request_header(3, version, 1) + array + bytes(20)))
    assert client.is_closed_by_peer()


def test_a_huge_array_that_is_really_sent_costs_little(broker: Broker, client: WireClient) -> None:
    """50 MB of empty names: the objects that they would become are many times as large as their bytes."""
    count = 25 * MEGABYTE
    client.send_raw(framed(request_header(20, 1, 1) + struct.pack(">i", count) + bytes(2 * count) + bytes(4)))
    assert client.is_closed_by_peer()
    assert resident_bytes(broker.pid) < 300 * MEGABYTE


def test_what_came_before_a_bad_frame_is_answered(client: WireClient) -> None:
    topic = new_topic(client)
    data = PartitionProduceData(index=0, records=encode_batch([Record(b"good")]))
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    good = framed(encode_request(request, 9, 50)) + framed(API_VERSIONS)
    client.send_raw(good + framed(b"bad"))
    (answer,) = client.receive(0, 9, 50).responses
    assert answer.partition_responses[0].base_offset == 0
    assert client.receive(18, 0, 77).error_code == ErrorCode.NONE
    assert client.is_closed_by_peer()


@pytest.mark.parametrize("cause", ["a frame that is no request", "a failing produce with acks=0"])
def test_what_still_waits_for_its_answer_gets_it_before_the_connection_is_closed(
    client: WireClient, cause: str
) -> None:
    topic = new_topic(client)
    parked = framed(encode_request(fetch(topic, max_wait_ms=300, min_bytes=1), 11, 51))
    data = PartitionProduceData(index=7, records=encode_batch([Record(b"no such partition")]))
    unheard = ProduceRequest(acks=0, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    last = b"bad" if cause == "a frame that is no request" else encode_request(unheard, 9, 52)
    client.send_raw(parked + framed(last) + framed(API_VERSIONS) * 3)
    (answer,) = client.receive(1, 11, 51).responses
    assert answer.partitions[0].error_code == ErrorCode.NONE
    assert client.is_closed_by_peer(), "what came behind it is not answered"


def test_a_peer_that_goes_away_after_a_bad_frame_leaves_nothing_behind(broker: Broker, client: WireClient) -> None:
    topic = new_topic(client)
    parked = framed(encode_request(fetch(topic, max_wait_ms=600_000, min_bytes=1), 11, 53))
    open_before = open_files(broker.pid)
    for _ in range(20):
        with WireClient(broker.bootstrap_servers) as rude:
            rude.send_raw(parked + framed(b"bad"))
    assert eventually(lambda: open_files(broker.pid) <= open_before)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


# Peers that stall


def takes_all(flooding: WireClient, data: bytes, *, times: int) -> bool:
    """Whether the broker goes on reading from a peer that does not read; it is given the client's timeout to decide."""
    try:
        for _ in range(times):
            flooding.socket.sendall(data)
    except TimeoutError:
        return False
    return True


def test_peers_that_say_nothing_are_left_alone(broker: Broker) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(WireClient(broker.bootstrap_servers)) for _ in range(200)]
        for client in silent:
            assert_speaks_kafka(client)


def test_peers_that_say_nothing_too_long_are_closed() -> None:
    with (
        Broker(config={"connections.max.idle.ms": "300"}) as impatient,
        WireClient(impatient.bootstrap_servers) as idle,
    ):
        assert idle.is_closed_by_peer()
        with WireClient(impatient.bootstrap_servers) as halfway:
            halfway.send_raw(framed(API_VERSIONS)[:10])
            assert halfway.is_closed_by_peer()


def test_half_a_frame_waits_for_its_other_half(client: WireClient) -> None:
    frame = framed(API_VERSIONS)
    client.send_raw(frame[:9])
    time.sleep(0.3)
    client.send_raw(frame[9:])
    assert client.receive(18, 0, 77).error_code == ErrorCode.NONE


def test_half_a_frame_and_a_hang_up_harms_nothing(broker: Broker) -> None:
    for _ in range(200):
        with WireClient(broker.bootstrap_servers) as client:
            client.send_raw(framed(API_VERSIONS)[:9])


def test_a_sender_of_single_bytes_is_served(client: WireClient) -> None:
    for byte in framed(API_VERSIONS) * 20:
        client.send_raw(bytes([byte]))
    for _ in range(20):
        assert client.receive(18, 0, 77).error_code == ErrorCode.NONE


def test_a_peer_that_never_reads_is_not_read_from_any_more(broker: Broker, client: WireClient) -> None:
    """It asks for a megabyte a hundred thousand times; neither files nor memory pile up on its account."""
    topic = new_topic(client)
    for _ in range(2):
        client.receive(0, 9, produce(client, topic, bytes(500_000)))
    before = resident_bytes(broker.pid)
    flood = framed(encode_request(fetch(topic), 11, 1)) * 1000
    with WireClient(broker.bootstrap_servers, timeout_s=1, receive_buffer=4096) as flooding:
        assert not takes_all(flooding, flood, times=500)
        assert resident_bytes(broker.pid) - before < RESIDENT_GROWTH_MAX
        # When it reads again, all is there in good order.
        flooding.socket.settimeout(20)
        for _ in range(50):
            (answer,) = flooding.receive(1, 11, 1).responses
            assert len(answer.partitions[0].records) > 900_000


def test_small_answers_that_are_never_read_do_not_pile_up(broker: Broker) -> None:
    before = resident_bytes(broker.pid)
    flood = framed(encode_request(ApiVersionsRequest(), 0, 1)) * 1000
    with WireClient(broker.bootstrap_servers, timeout_s=1, receive_buffer=4096) as flooding:
        assert not takes_all(flooding, flood, times=5000)
        assert resident_bytes(broker.pid) - before < RESIDENT_GROWTH_MAX


def test_fetches_that_wait_do_not_pile_up(broker: Broker, client: WireClient) -> None:
    topic = new_topic(client)
    before = resident_bytes(broker.pid)
    parked = framed(encode_request(fetch(topic, max_wait_ms=600_000, min_bytes=1), 11, 1)) * 1000
    with WireClient(broker.bootstrap_servers, timeout_s=1) as flooding:
        assert not takes_all(flooding, parked, times=500)
        assert resident_bytes(broker.pid) - before < RESIDENT_GROWTH_MAX


def test_ten_thousand_pipelined_requests_are_answered_in_order(client: WireClient) -> None:
    topic = new_topic(client)
    frames = bytearray()
    for number in range(10_000):
        if number % 2:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            frames += framed(encode_request(request, 12, number))
        else:
            data = PartitionProduceData(index=0, records=encode_batch([Record(b"%d" % number)]))
            produced = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
            frames += framed(encode_request(produced, 9, number))
    client.socket.setblocking(False)
    received = bytearray()
    unsent = memoryview(frames)
    deadline = time.monotonic() + 30
    sizes: list[int] = []
    while len(sizes) < 10_000 and time.monotonic() < deadline:
        if unsent:
            with contextlib.suppress(BlockingIOError):
                unsent = unsent[client.socket.send(unsent[:100_000]) :]
        with contextlib.suppress(BlockingIOError):
            received += client.socket.recv(1 << 20)
        while len(received) >= 8:
            size, correlation_id = struct.unpack_from(">ii", received)
            if len(received) < size + 4:
                break
            assert correlation_id == len(sizes)
            sizes.append(size)
            del received[: size + 4]
    assert len(sizes) == 10_000
    client.socket.settimeout(20)
    (answer,) = client.ask(fetch(topic, offset=4999), 11).responses
    assert answer.partitions[0].high_watermark == 5000


def test_connections_that_come_and_go_leave_nothing_behind(broker: Broker) -> None:
    """Thousands of them, half with half a request; each would cost its receive buffer."""
    before = resident_bytes(broker.pid)
    address = ("127.0.0.1", broker.port)
    for number in range(5_000):
        with socket.create_connection(address) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(framed(b"bad") if number % 2 else framed(API_VERSIONS)[:-3])
            if number % 2:
                with contextlib.suppress(ConnectionError):
                    connection.recv(1)
    assert resident_bytes(broker.pid) - before < 10 * MEGABYTE


def test_hundreds_of_connections_at_once(broker: Broker) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(WireClient(broker.bootstrap_servers)) for _ in range(400)]
        for client in clients:
            client.send_raw(framed(API_VERSIONS))
        for client in clients:
            assert client.receive(18, 0, 77).error_code == ErrorCode.NONE
