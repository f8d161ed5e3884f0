"""A connection against a scripted broker."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.core.errors import ProtocolError
from penstock.protocol.codec import reader, writer
from penstock.protocol.definitions.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from penstock.protocol.definitions.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.definitions.produce import ProduceRequest
from penstock.protocol.definitions.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.definitions.sasl_handshake import SaslHandshakeResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.exchange import ReceiveBuffer
from penstock.protocol.headers import read_request_header, response_header_version
from penstock.protocol.schema import Message
from penstock.wire.connection import Address, Connection
from penstock.wire.errors import ConnectionLost
from penstock.wire.settings import WireSettings

Script = Callable[["Peer"], None]
VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=18, min_version=0, max_version=4),
        ApiVersion(api_key=26, min_version=1, max_version=3),
        ApiVersion(api_key=0, min_version=90, max_version=99),
    ],
    finalized_features_epoch=1,
    finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)],
)


class Peer:
    """The broker's side: reads requests and sends the scripted responses."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.stream = connection.makefile("rb")

    def request(self) -> tuple[int, int, int]:
        """(API key, version, correlation id) of the next request."""
        (size,) = struct.unpack(">i", self.stream.read(4))
        api_key, version, correlation_id = struct.unpack_from(">hhi", self.stream.read(size))
        return api_key, version, correlation_id

    def answer(self, correlation_id: int, response: Message, version: int) -> None:
        assert response.API_KEY is not None
        out = bytearray(struct.pack(">i", correlation_id))
        out += bytes(response_header_version(response.API_KEY, version))
        writer(type(response), version)(out, response)
        self.connection.sendall(struct.pack(">i", len(out)) + out)

    def agree(self) -> None:
        _, version, correlation_id = self.request()
        self.answer(correlation_id, VERSIONS, version)


@contextmanager
def broker(script: Script) -> Iterator[Address]:
    failures: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                peer = Peer(connection)
                try:
                    script(peer)
                except BaseException as failure:
                    failures.append(failure)
                finally:
                    peer.stream.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])
        thread.join(60)
        assert not thread.is_alive()
        assert not failures, failures


def connect(address: Address, **settings: str) -> Connection:
    given = {"bootstrap.servers": str(address), **{name.replace("_", "."): value for name, value in settings.items()}}
    return Connection(address, WireSettings.parse(given), None)


def impatient(connection: Connection) -> Connection:
    """Only now: the peer has had its time to agree on versions."""
    connection._request_timeout_s = 0.2
    return connection


def test_versions_are_the_newest_that_both_know() -> None:
    with broker(Peer.agree) as address:
        connection = connect(address)
        assert connection.version_for(EndTxnRequest) == 3
        assert connection.version_for(EndTxnRequest, at_most=2) == 2
        with pytest.raises(BrokerError, match="EndTxn in versions 1 to 3"):
            connection.version_for(EndTxnRequest, at_least=4)
        with pytest.raises(BrokerError, match="Produce in versions 90 to 99"):
            connection.version_for(ProduceRequest)
        assert connection.features == {"transaction.version": 2}
        connection.close()


def test_an_older_broker_is_asked_again_in_its_own_version() -> None:
    asked = []

    def script(peer: Peer) -> None:
        _, version, correlation_id = peer.request()
        asked.append(version)
        offered = [ApiVersion(api_key=18, min_version=0, max_version=2)]
        peer.answer(correlation_id, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=offered), 0)
        _, version, correlation_id = peer.request()
        asked.append(version)
        peer.answer(correlation_id, ApiVersionsResponse(api_keys=VERSIONS.api_keys), version)

    with broker(script) as address:
        connection = connect(address)
        assert connection.version_for(EndTxnRequest) == 3
        connection.close()
    assert asked == [4, 2]


def test_responses_match_their_requests_in_any_order_of_waiting() -> None:
    def script(peer: Peer) -> None:
        peer.agree()
        correlation_ids = [peer.request()[2] for _ in range(3)]
        for number, correlation_id in enumerate(correlation_ids):
            peer.answer(correlation_id, EndTxnResponse(throttle_time_ms=number), 3)

    with broker(script) as address:
        connection = connect(address)
        buffer = ReceiveBuffer()
        pending = [
            connection.send(EndTxnRequest(), 3),
            connection.send(EndTxnRequest(), 3, into=buffer),
            connection.send(EndTxnRequest(), 3),
        ]
        assert [pending[index].response().throttle_time_ms for index in (2, 0, 1)] == [2, 0, 1]
        assert connection.in_flight == 0
        connection.close()


def test_a_timeout_closes_the_connection_and_loses_all_requests_in_flight() -> None:
    finished = threading.Event()

    def script(peer: Peer) -> None:
        peer.agree()
        finished.wait(10)

    with broker(script) as address:
        connection = impatient(connect(address))
        first, second = connection.send(EndTxnRequest(), 3), connection.send(EndTxnRequest(), 3)
        with pytest.raises(ConnectionLost, match="did not answer in time"):
            first.response()
        with pytest.raises(ConnectionLost):
            second.response()
        with pytest.raises(ConnectionLost):
            connection.send(EndTxnRequest(), 3)
        assert not connection.is_open
        finished.set()


def test_a_slow_trickle_of_bytes_does_not_extend_the_timeout() -> None:
    finished = threading.Event()

    def script(peer: Peer) -> None:
        peer.agree()
        _, _, correlation_id = peer.request()
        peer.connection.sendall(struct.pack(">ii", 1000, correlation_id))
        while not finished.wait(0.05):
            peer.connection.sendall(b"x")

    with broker(script) as address:
        connection = impatient(connect(address))
        with pytest.raises(ConnectionLost, match="did not answer in time"):
            connection.ask(EndTxnRequest(), 3)
        finished.set()


def test_a_peer_that_closes_the_connection_at_once_gets_a_hint_about_security_protocol() -> None:
    def script(peer: Peer) -> None:
        peer.request()

    with broker(script) as address, pytest.raises(ConnectionLost, match=r"security\.protocol"):
        connect(address)


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 400 Bad Request\r\n", struct.pack(">ii", -1, 1), struct.pack(">ii", 4, 77)]
)
def test_a_peer_that_is_not_a_broker_is_detected(reply: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.connection.sendall(reply)

    with broker(script) as address, pytest.raises(ProtocolError, match=r"security\.protocol"):
        connect(address)


def test_an_invalid_response_closes_the_connection() -> None:
    def script(peer: Peer) -> None:
        peer.agree()
        _, _, correlation_id = peer.request()
        peer.connection.sendall(struct.pack(">iibb", 6, correlation_id, 0, 0))

    with broker(script) as address:
        connection = connect(address)
        with pytest.raises(ProtocolError, match="not a valid EndTxnResponse"):
            connection.ask(EndTxnRequest(), 3)
        assert not connection.is_open


def test_a_refused_connection_is_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(*server.getsockname())
    with pytest.raises(ConnectionLost, match=f"cannot connect to {address}"):
        connect(address)


def test_every_connection_authenticates_with_a_nonce_of_its_own() -> None:
    offered = [ApiVersion(api_key=key, min_version=0, max_version=1) for key in (17, 18, 36)]
    first_messages = []

    def script(peer: Peer) -> None:
        _, _, correlation_id = peer.request()
        peer.answer(correlation_id, ApiVersionsResponse(api_keys=offered), 4)
        _, version, correlation_id = peer.request()
        peer.answer(correlation_id, SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]), version)
        (size,) = struct.unpack(">i", peer.stream.read(4))
        frame = peer.stream.read(size)
        _, version, correlation_id, _, position = read_request_header(frame, 0, size)
        request, _ = reader(SaslAuthenticateRequest, version)(frame, position, size)
        first_messages.append(bytes(request.auth_bytes))
        refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no")
        peer.answer(correlation_id, refusal, version)

    for _ in range(2):
        with broker(script) as address, pytest.raises(BrokerError, match="refused the credentials: no"):
            connect(
                address,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="SCRAM-SHA-256",
                sasl_username="alice",
                sasl_password="hush",
            )
    assert all(message.startswith(b"n,,n=alice,r=") for message in first_messages)
    assert first_messages[0] != first_messages[1]
