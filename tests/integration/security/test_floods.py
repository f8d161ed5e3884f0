"""Peers that have not authenticated, or do not read: others are served, and the broker's memory stays bounded."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from penstock.client.producer import Producer
from penstock.client.security_admin import SecurityAdmin
from penstock.core.acls import ResourceType
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.client import WireClient
from tests.integration.security.secured_broker import Secured, all_of
from tests.wire_client import encode_request, framed

PEERS = 300
READERS = 20
RECORD_BYTES = 500_000
RECORDS = 80
TIMEOUT_S = 30
MEGABYTE = 1_000_000


def resident_bytes(secured: Secured) -> int:
    with open(f"/proc/{secured.broker.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def connect(secured: Secured, listener: str) -> socket.socket:
    host, _, port = secured.addresses[listener].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


@contextmanager
def many(secured: Secured, listener: str, sends: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(secured, listener)) for _ in range(PEERS)]
        for peer in peers:
            peer.sendall(sends)
        yield peers


def serves(secured: Secured, listener: str) -> bool:
    """To a client that connects now."""
    with WireClient(secured.settings(listener, "SCRAM-SHA-256")) as client:
        return "orders" in client.metadata(["orders"], timeout_s=TIMEOUT_S).topics


def test_peers_that_announce_much_before_authentication(secured: Secured) -> None:
    assert serves(secured, "SASL_PLAINTEXT")
    before = resident_bytes(secured)
    with many(secured, "SASL_PLAINTEXT", (500_000).to_bytes(4, "big") + b"x" * 100):
        assert serves(secured, "SASL_PLAINTEXT")
        assert resident_bytes(secured) - before < 50 * MEGABYTE
    with many(secured, "SASL_PLAINTEXT", (600_000).to_bytes(4, "big")) as peers:
        for peer in peers:
            assert hung_up(peer), "more than sasl.server.max.receive.size"


def hung_up(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def test_handshakes_that_never_begin_and_handshakes_that_never_end(secured: Secured) -> None:
    assert serves(secured, "SASL_SSL")
    before = resident_bytes(secured)
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    with many(secured, "SASL_SSL", b""), many(secured, "SASL_SSL", outgoing.read()):
        assert serves(secured, "SASL_SSL")
        assert resident_bytes(secured) - before < 50 * MEGABYTE


def test_clients_that_ask_for_much_over_tls_and_do_not_read(secured: Secured) -> None:
    """Twenty of them ask for 40 MB each."""
    admin = SecurityAdmin(secured.settings("SASL_SSL", "PLAIN", "admin"))
    admin.create_topic("large")
    admin.create_acls([all_of(ResourceType.TOPIC, "large", "User:alice")])
    with Producer(secured.settings("SASL_SSL", "PLAIN", "alice")) as producer:
        for _ in range(RECORDS):
            producer.send("large", os.urandom(RECORD_BYTES))
    context = ssl.create_default_context(cafile=str(secured.authority.certificate))
    context.load_cert_chain(secured.client_certificate)
    wanted = 2 * RECORDS * RECORD_BYTES
    partition = FetchPartition(partition=0, partition_max_bytes=wanted)
    fetch = FetchRequest(max_bytes=wanted, topics=[FetchTopic(topic="large", partitions=[partition])])
    request = framed(encode_request(fetch, 11, 1))
    before = resident_bytes(secured)
    with ExitStack() as stack:
        readers = [
            stack.enter_context(context.wrap_socket(connect(secured, "SSL"), server_hostname="localhost"))
            for _ in range(READERS)
        ]
        for reader in readers:
            reader.sendall(request)
        for reader in readers:
            assert select.select([reader], [], [], TIMEOUT_S)[0], "the answer has begun to arrive"
        assert serves(secured, "SASL_SSL")
        assert resident_bytes(secured) - before < 50 * MEGABYTE
        size = int.from_bytes(exactly(readers[0], 4), "big")
        assert size > RECORDS * RECORD_BYTES
        exactly(readers[0], size)  # one that reads on gets all of it


def exactly(reader: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        piece = reader.recv(min(count - len(received), 1 << 20))
        assert piece, "the broker hung up"
        received += piece
    return bytes(received)
