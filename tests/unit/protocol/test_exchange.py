"""The exchange with scripted bytes: no socket, no event loop, no clock."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any

import pytest

from penstock.core.errors import ProtocolError
from penstock.protocol.codec import reader, writer
from penstock.protocol.definitions.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from penstock.protocol.definitions.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.definitions.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.definitions.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.exchange import Exchange, InFlightRequest, ReceiveBuffer, SaslMessages, Step
from penstock.protocol.headers import read_request_header, response_header_version
from penstock.protocol.schema import Message

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=0, min_version=90, max_version=99),
        ApiVersion(api_key=17, min_version=0, max_version=1),
        ApiVersion(api_key=18, min_version=0, max_version=4),
        ApiVersion(api_key=26, min_version=1, max_version=3),
        ApiVersion(api_key=36, min_version=0, max_version=2),
    ],
    finalized_features_epoch=1,
    finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)],
)


def response_bytes(correlation_id: int, response: Message, version: int) -> bytes:
    assert response.API_KEY is not None
    out = bytearray(struct.pack(">i", correlation_id))
    out += bytes(response_header_version(response.API_KEY, version))
    writer(type(response), version)(out, response)
    return struct.pack(">i", len(out)) + bytes(out)


def feed(exchange: Exchange, data: bytes, chunk_bytes: int | None = None) -> list[InFlightRequest]:
    """Puts `data` into the exchange, at most `chunk_bytes` at a time; gives the requests that were answered."""
    answered = []
    while data:
        room = exchange.get_buffer()
        count = min(len(data), len(room), chunk_bytes or len(data))
        room[:count], data = data[:count], data[count:]
        done = exchange.advance(count)
        if done is not None:
            answered.append(done)
    return answered


def answer(exchange: Exchange, step: Step, response: Message, version: int | None = None) -> Any:
    """Sends the request of a setup step and gives the decoded response to it."""
    sent, _ = exchange.send(step.request, step.version)
    (answered,) = feed(
        exchange, response_bytes(sent.correlation_id, response, step.version if version is None else version)
    )
    assert answered is sent
    return sent.decode()


def finish(steps: Generator[Step, Any, Any], response: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        steps.send(response)
    return end.value.value


@pytest.fixture
def exchange() -> Exchange:
    exchange = Exchange("broker:9092", "tester")
    steps = exchange.negotiate_versions("penstock", "1.0")
    finish(steps, answer(exchange, next(steps), VERSIONS))
    return exchange


# Versions


def test_versions_are_the_newest_that_both_sides_support(exchange: Exchange) -> None:
    assert exchange.version_for(EndTxnRequest) == 3
    assert exchange.version_for(EndTxnRequest, at_most=2) == 2
    assert exchange.features == {"transaction.version": 2}
    with pytest.raises(BrokerError, match="broker:9092 supports EndTxn in versions 1 to 3, and 4 is needed") as refused:
        exchange.version_for(EndTxnRequest, at_least=4)
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(BrokerError, match="Produce in versions 90 to 99"):
        exchange.version_for(ProduceRequest)


def test_an_api_that_the_broker_did_not_announce_is_not_supported() -> None:
    with pytest.raises(BrokerError, match="broker:9092 does not support EndTxn"):
        Exchange("broker:9092", "tester").version_for(EndTxnRequest)


def test_an_older_broker_is_asked_again_in_its_newest_version() -> None:
    exchange = Exchange("broker:9092", "tester")
    steps = exchange.negotiate_versions("penstock", "1.0")
    offered = [ApiVersion(api_key=18, min_version=0, max_version=2)]
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=offered)
    second = steps.send(answer(exchange, next(steps), refusal, version=0))
    assert second.version == 2
    finish(steps, answer(exchange, second, ApiVersionsResponse(api_keys=VERSIONS.api_keys)))
    assert exchange.version_for(EndTxnRequest) == 3


def test_a_broker_that_refuses_every_version_is_an_error() -> None:
    exchange = Exchange("broker:9092", "tester")
    steps = exchange.negotiate_versions("penstock", "1.0")
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    second = steps.send(answer(exchange, next(steps), refusal, version=0))
    assert second.version == 0
    with pytest.raises(BrokerError, match="ApiVersions"):
        steps.send(answer(exchange, second, refusal, version=0))


# Requests


def test_a_request_has_its_header_and_the_next_correlation_id(exchange: Exchange) -> None:
    request = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=1, committed=True)
    first, chunks = exchange.send(request, 3)
    second, _ = exchange.send(request, 3)
    assert second.correlation_id == first.correlation_id + 1
    data = b"".join(chunks)
    assert struct.unpack_from(">i", data) == (len(data) - 4,)
    key, version, correlation_id, client_id, position = read_request_header(data, 4, len(data))
    assert (key, version, correlation_id, client_id) == (26, 3, first.correlation_id, "tester")
    assert reader(EndTxnRequest, 3)(data, position, len(data)) == (request, len(data))


@pytest.mark.parametrize("version", [8, 9])
def test_record_batches_are_sent_from_where_they_are(exchange: Exchange, version: int) -> None:
    batches = [bytes([number]) * 1000 for number in range(3)]
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)
                ],
            )
        ]
    )
    chunks = exchange.send_unanswered(request, version)
    assert [chunk for chunk in chunks if any(chunk is batch for batch in batches)] == batches
    data = b"".join(chunks)
    assert struct.unpack_from(">i", data) == (len(data) - 4,)
    *_, position = read_request_header(data, 4, len(data))
    decoded, end = reader(ProduceRequest, version)(data, position, len(data))
    assert end == len(data)
    assert [part.records for part in decoded.topic_data[0].partition_data] == batches
    assert exchange.in_flight == 0


def test_the_next_deadline_is_that_of_the_oldest_request(exchange: Exchange) -> None:
    assert exchange.deadline == float("inf")
    first, _ = exchange.send(EndTxnRequest(), 3, deadline=5.0)
    exchange.send(EndTxnRequest(), 3, deadline=2.0)
    assert exchange.deadline == 5.0
    feed(exchange, response_bytes(first.correlation_id, EndTxnResponse(), 3))
    assert exchange.deadline == 2.0


# Responses


@pytest.mark.parametrize("chunk_bytes", [1, 3, 7, 8, 9, 1000])
def test_torn_responses_find_their_requests(exchange: Exchange, chunk_bytes: int) -> None:
    sent = [exchange.send(EndTxnRequest(), 3)[0] for _ in range(3)]
    data = b"".join(
        response_bytes(request.correlation_id, EndTxnResponse(throttle_time_ms=number), 3)
        for number, request in enumerate(sent)
    )
    assert exchange.in_flight == 3
    assert feed(exchange, data[:-1], chunk_bytes) == sent[:2]
    assert not sent[2].is_answered
    assert feed(exchange, data[-1:]) == [sent[2]]
    assert [request.decode().throttle_time_ms for request in sent] == [0, 1, 2]
    assert exchange.in_flight == 0


def test_a_response_is_received_into_the_buffer_of_its_request(exchange: Exchange) -> None:
    buffer = ReceiveBuffer()
    reused = buffer.room(1000)
    sent, _ = exchange.send(EndTxnRequest(), 3, into=buffer)
    data = response_bytes(sent.correlation_id, EndTxnResponse(throttle_time_ms=9), 3)
    feed(exchange, data)
    assert sent.decode().throttle_time_ms == 9
    assert reused[: len(data) - 8] == data[8:]


def test_a_wrong_correlation_id_ends_the_exchange(exchange: Exchange) -> None:
    sent, _ = exchange.send(EndTxnRequest(), 3)
    with pytest.raises(ProtocolError, match="broker:9092 does not answer like a Kafka broker"):
        feed(exchange, response_bytes(sent.correlation_id + 1, EndTxnResponse(), 3))
    with pytest.raises(AssertionError, match="cannot continue"):
        exchange.get_buffer()


@pytest.mark.parametrize("size", [-1, 0, 3])
def test_a_size_without_room_for_a_correlation_id_is_refused(exchange: Exchange, size: int) -> None:
    sent, _ = exchange.send(EndTxnRequest(), 3)
    with pytest.raises(ProtocolError, match="does not answer like a Kafka broker"):
        feed(exchange, struct.pack(">ii", size, sent.correlation_id))


def test_an_oversized_announcement_is_refused_before_memory_is_reserved() -> None:
    exchange = Exchange("broker:9092", "tester", response_bytes_max=1000)
    buffer = ReceiveBuffer()
    sent, _ = exchange.send(EndTxnRequest(), 3, into=buffer)
    with pytest.raises(ProtocolError, match="announced a response of 1001 bytes; at most 1000"):
        feed(exchange, struct.pack(">ii", 1005, sent.correlation_id))
    assert len(buffer.room(0)) == 0


def test_a_large_announcement_reserves_no_memory_that_bytes_do_not_fill(exchange: Exchange) -> None:
    sent, _ = exchange.send(EndTxnRequest(), 3)
    feed(exchange, struct.pack(">ii", 1024 * 1024 * 1024, sent.correlation_id) + b"x" * 10)
    assert len(exchange.get_buffer()) == 1024 * 1024 * 1024 - 14


def test_a_response_without_a_request_is_refused(exchange: Exchange) -> None:
    with pytest.raises(ProtocolError, match="without a request"):
        feed(exchange, response_bytes(1, EndTxnResponse(), 3))


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff\xff\xff\xff\xff\xff"])
def test_a_response_that_cannot_be_decoded_names_its_message(exchange: Exchange, body: bytes) -> None:
    sent, _ = exchange.send(EndTxnRequest(), 3)
    assert feed(exchange, struct.pack(">ii", 4 + len(body), sent.correlation_id) + body) == [sent]
    with pytest.raises(ProtocolError, match="not a valid EndTxnResponse"):
        sent.decode()


# Authentication


def two_messages(received: list[bytes]) -> SaslMessages:
    received.append((yield b"first"))
    received.append((yield b"second"))


def test_sasl_sends_every_message_of_the_mechanism(exchange: Exchange) -> None:
    received: list[bytes] = []
    steps = exchange.authenticate("SCRAM-SHA-256", two_messages(received))
    handshake = next(steps)
    assert handshake == Step(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    first = steps.send(answer(exchange, handshake, SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"])))
    assert first == Step(SaslAuthenticateRequest(auth_bytes=b"first"), 2)
    second = steps.send(answer(exchange, first, SaslAuthenticateResponse(auth_bytes=b"challenge")))
    assert second == Step(SaslAuthenticateRequest(auth_bytes=b"second"), 2)
    last = SaslAuthenticateResponse(auth_bytes=b"proof", session_lifetime_ms=60_000)
    assert finish(steps, answer(exchange, second, last)) == 60_000
    assert received == [b"challenge", b"proof"]


def test_a_mechanism_that_the_broker_does_not_offer_is_refused(exchange: Exchange) -> None:
    steps = exchange.authenticate("PLAIN", two_messages([]))
    refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI"])
    response = answer(exchange, next(steps), refusal)
    with pytest.raises(BrokerError, match=r"sasl\.mechanism=PLAIN: broker:9092 offers GSSAPI") as refused:
        steps.send(response)
    assert refused.value.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_refused_credentials_are_an_error_with_the_brokers_reason(exchange: Exchange) -> None:
    steps = exchange.authenticate("PLAIN", two_messages([]))
    step = steps.send(answer(exchange, next(steps), SaslHandshakeResponse(mechanisms=["PLAIN"])))
    refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="wrong password")
    response = answer(exchange, step, refusal)
    with pytest.raises(BrokerError, match="refused the credentials: wrong password") as refused:
        steps.send(response)
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
