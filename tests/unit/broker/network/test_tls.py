"""TLS contexts from PEM files, and TLS connections on real sockets."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.network.connection import Connection
from penstock.broker.network.endpoints import BoundListener
from penstock.broker.network.server import Server
from penstock.broker.network.tls import ListenerTls, TlsError, readable_by_everyone
from penstock.broker.network.tls_connection import HandshakeSlots, TlsConnection, TlsSender
from penstock.broker.node import Node
from penstock.core import limits
from penstock.metadata.listener_security import TlsSettings
from penstock.metadata.topics import NewTopic
from penstock.protocol.codec import reader, response_class
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.headers import response_header_version
from penstock.protocol.schema import Message
from tests.certificates import EXPIRED, NOT_YET_VALID, Authority, new_authority
from tests.record_batches import Record, encode_batch
from tests.unit.broker.nodes import make_topics, node_in
from tests.wire_client import encode_request, framed


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return new_authority(tmp_path_factory.mktemp("authority"))


def settings(keystore: Path | str | None = None, **changed: Any) -> TlsSettings:
    values: dict[str, Any] = {
        "keystore_file": None if keystore is None else str(keystore),
        "certificate_chain": None,
        "truststore_file": None,
        "truststore_certificates": None,
        "client_auth": "none",
        "enabled_protocols": ("TLSv1.2", "TLSv1.3"),
        "cipher_suites": (),
        "principal_mapping_rules": "DEFAULT",
        "key": None,
        "key_password": None,
    }
    return TlsSettings(**(values | changed))


# Contexts


def test_a_pem_file_and_pem_text(authority: Authority) -> None:
    keystore = authority.issue("ok")
    assert ListenerTls(settings(keystore)).covers("localhost")
    key, _, chain = keystore.read_text().partition("-----BEGIN CERTIFICATE-----")
    chain = "-----BEGIN CERTIFICATE-----" + chain
    as_text = settings(certificate_chain=chain.replace("\n", "\\n"), key=key)
    assert ListenerTls(as_text).covers("127.0.0.1")


def test_the_hosts_of_a_certificate(authority: Authority) -> None:
    tls = ListenerTls(settings(authority.issue("hosts", hosts="DNS:broker.example,DNS:*.pool.example")))
    assert tls.covers("BROKER.example")
    assert tls.covers("a.pool.example")
    assert not tls.covers("a.b.pool.example")
    assert not tls.covers("localhost")


def test_an_encrypted_key_needs_its_password(authority: Authority) -> None:
    keystore = authority.issue("encrypted", password="hush-hush")
    ListenerTls(settings(keystore, key_password="hush-hush"))
    for password in (None, "wrong-hush"):
        with pytest.raises(TlsError, match=r"ssl\.key\.password") as refused:
            ListenerTls(settings(keystore, key_password=password))
        assert "hush" not in str(refused.value)


def _without_key(authority: Authority) -> Path:
    path = authority.directory / "without-key.pem"
    authority.issue("whole")
    path.write_text((authority.directory / "whole.crt").read_text())
    return path


def _with_another_key(authority: Authority) -> Path:
    authority.issue("one")
    authority.issue("two")
    path = authority.directory / "mixed.pem"
    path.write_text((authority.directory / "one.key").read_text() + (authority.directory / "two.crt").read_text())
    return path


def _without_certificate(authority: Authority) -> Path:
    authority.issue("key-only")
    return authority.directory / "key-only.key"


def _garbage(authority: Authority) -> Path:
    path = authority.directory / "garbage.pem"
    path.write_bytes(bytes(range(256)))
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a: a.issue("expired", dates=EXPIRED), "the certificate has expired; renew it"),
        (lambda a: a.issue("early", dates=NOT_YET_VALID), "not valid yet; check its dates and this machine's clock"),
        (_without_key, "no usable private key and certificate"),
        (_with_another_key, "the private key does not belong to the certificate"),
        (_without_certificate, "no certificate; expected certificates in PEM"),
        (_garbage, "no certificate; expected certificates in PEM"),
        (lambda a: a.directory / "absent.pem", "No such file or directory; check the path and its permissions"),
    ],
    ids=["expired", "not yet valid", "without key", "another key", "without certificate", "garbage", "absent"],
)
def test_certificates_that_cannot_be_used(
    make: Callable[[Authority], Path], message: str, authority: Authority
) -> None:
    keystore = make(authority)
    with pytest.raises(TlsError, match=message) as refused:
        ListenerTls(settings(keystore))
    assert str(refused.value).startswith(f"ssl.keystore.location: {keystore}: ")
    assert "\n" not in str(refused.value)


def test_other_settings_that_cannot_be_used(authority: Authority) -> None:
    keystore = authority.issue("other")
    with pytest.raises(TlsError, match=r"ssl.principal.mapping.rules: 'RULE:x' is not a rule"):
        ListenerTls(settings(keystore, principal_mapping_rules="RULE:x"))
    with pytest.raises(TlsError, match=r"ssl\.cipher\.suites: OpenSSL knows none of TLS_NONSENSE"):
        ListenerTls(settings(keystore, cipher_suites=("TLS_NONSENSE",)))
    with pytest.raises(TlsError, match=r"ssl.truststore.location: /absent.pem: No such file"):
        ListenerTls(settings(keystore, client_auth="required", truststore_file="/absent.pem"))
    with pytest.raises(TlsError, match=r"ssl\.truststore\.location"):
        ListenerTls(settings(keystore, client_auth="required", truststore_certificates="nonsense"))


def test_a_key_that_everyone_can_read_is_noticed(authority: Authority) -> None:
    keystore = authority.issue("public")
    assert not readable_by_everyone(settings(keystore))
    keystore.chmod(0o644)
    assert readable_by_everyone(settings(keystore))


def test_a_changed_file_is_read_again_and_a_bad_one_is_not_used(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    keystore = authority.issue("renewed", subject="/O=example/CN=first")
    tls = ListenerTls(settings(keystore))
    first = tls.context
    assert not tls.reload_if_changed()
    renewed = authority.issue("next", subject="/O=example/CN=second")
    renewed.replace(keystore)
    assert tls.reload_if_changed()
    assert tls.context is not first
    assert dict(part[0] for part in tls.certificate["subject"])["commonName"] == "second"
    second = tls.context
    authority.issue("too-late", dates=EXPIRED).replace(keystore)
    assert not tls.reload_if_changed()
    assert tls.context is second
    keystore.unlink()
    assert not tls.reload_if_changed()
    assert tls.context is second
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert ["has expired" in errors[0], "No such file" in errors[1]] == [True, True]


def test_a_new_certificate_with_bad_authorities_is_not_used_at_all(authority: Authority, tmp_path: Path) -> None:
    keystore, authorities = authority.issue("both"), tmp_path / "authorities.pem"
    authorities.write_bytes(authority.certificate.read_bytes())
    tls = ListenerTls(settings(keystore, client_auth="required", truststore_file=str(authorities)))
    context = tls.context
    keystore.write_bytes(authority.issue("moved", hosts="DNS:elsewhere.example").read_bytes())
    authorities.write_text("nonsense")
    assert not tls.reload_if_changed()
    assert tls.context is context
    assert tls.covers("localhost")
    assert not tls.covers("elsewhere.example")


# Connections


class Client:
    """A TLS client on its own thread's socket; the broker runs on the test's loop."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        raw = socket.create_connection(("127.0.0.1", port), timeout=60)
        try:
            self.socket = context.wrap_socket(raw, server_hostname="localhost")
        except BaseException:
            raw.close()
            raise

    def send(self, request: Message, version: int) -> None:
        self.socket.sendall(framed(encode_request(request, version, 1)))

    def receive(self, api_key: int, version: int) -> Any:
        size = int.from_bytes(self._exactly(4), "big")
        frame = self._exactly(size)
        start = 5 if response_header_version(api_key, version) > 0 else 4
        read: Any = reader(response_class(api_key), version)
        return read(memoryview(frame), start, len(frame))[0]

    def ask(self, request: Message, version: int) -> Any:
        assert request.API_KEY is not None
        try:
            self.send(request, version)
            return self.receive(request.API_KEY, version)
        except OSError:
            self.socket.close()
            raise

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self.socket.recv(count - len(received))
            if not piece:
                raise ConnectionResetError("the broker hung up")
            received += piece
        return bytes(received)


class Broker:
    def __init__(self, node: Node, server: Server, tls: ListenerTls, port: int) -> None:
        self.node = node
        self.server = server
        self.tls = tls
        self.port = port

    @property
    def connections(self) -> list[TlsConnection]:
        return [each for each in self.server._connections if isinstance(each, TlsConnection)]

    @property
    def slots(self) -> HandshakeSlots:
        return self.connections[0]._slots


async def becomes_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - it waits for what the kernel tells the loop
            await asyncio.sleep(0.005)


def client_context(authority: Authority, certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def serve(directory: Path, wanted: TlsSettings, scenario: Callable[[Broker], Awaitable[None]]) -> None:
    async def main() -> None:
        with node_in(directory) as node:
            make_topics(node, NewTopic("orders", 1, 1))
            listening = socket.create_server(("127.0.0.1", 0))
            listening.setblocking(False)
            tls = ListenerTls(wanted)
            server = Server(node)
            await server.listen([BoundListener("PLAINTEXT", listening, tls)])
            try:
                await scenario(Broker(node, server, tls, listening.getsockname()[1]))
            finally:
                server.close()
                await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_requests_over_tls(version: ssl.TLSVersion, authority: Authority, tmp_path: Path) -> None:
    context = client_context(authority)
    context.minimum_version = context.maximum_version = version

    def talk(port: int) -> list[str]:
        client = Client(port, context)
        batch = encode_batch([Record(value=os.urandom(900_000))])
        data = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=batch)])]
        for _ in range(3):
            [topic] = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9).responses
            assert topic.partition_responses[0].error_code == 0
        partitions = [FetchPartition(partition=0, partition_max_bytes=10_000_000)]
        fetch = FetchRequest(max_bytes=10_000_000, topics=[FetchTopic(topic="orders", partitions=partitions)])
        [topic] = client.ask(fetch, 11).responses
        assert len(topic.partitions[0].records) == 3 * len(batch)
        assert bytes(topic.partitions[0].records)[-800_000:] == batch[-800_000:]
        names = [topic.name for topic in client.ask(MetadataRequest(topics=None), 9).topics]
        client.socket.close()
        return names

    async def scenario(broker: Broker) -> None:
        assert await asyncio.to_thread(talk, broker.port) == ["orders"]

    serve(tmp_path, settings(authority.issue("talk")), scenario)


def test_a_request_may_come_in_tls_records_of_any_size(authority: Authority, tmp_path: Path) -> None:
    """Each request is answered before the next one is sent: a read that waits for bytes in vain would show."""
    sizes = random.Random(1)

    def talk(port: int) -> None:
        client = Client(port, client_context(authority))
        for number in range(60):
            batch = encode_batch([Record(value=sizes.randbytes(sizes.choice([1, 20_000, 300_000, 700_000])))])
            data = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=batch)])]
            request = framed(encode_request(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 9, 1))
            record_bytes = sizes.choice([500, 2_000, 5_000, 16_384])
            for start in range(0, len(request), record_bytes):
                client.socket.sendall(request[start : start + record_bytes])
            [topic] = client.receive(0, 9).responses
            assert topic.partition_responses[0].base_offset == number
        # Hangs up in the middle of a request, while the socket is not read from for few bytes.
        client.socket.sendall(request[: len(request) // 3])
        client.socket.close()

    async def scenario(broker: Broker) -> None:
        await asyncio.to_thread(talk, broker.port)
        await becomes_true(lambda: not broker.connections)

    serve(tmp_path, settings(authority.issue("records")), scenario)


def test_a_client_that_does_not_read_costs_one_piece_of_ciphertext(authority: Authority, tmp_path: Path) -> None:
    partitions = [FetchPartition(partition=0, partition_max_bytes=100_000_000)]
    fetch = FetchRequest(max_bytes=100_000_000, topics=[FetchTopic(topic="orders", partitions=partitions)])
    batch = encode_batch([Record(value=bytes(900_000))])
    data = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=batch)])]

    def fill_and_ask(port: int) -> Client:
        client = Client(port, client_context(authority))
        for _ in range(20):
            client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9)
        client.send(fetch, 11)
        return client

    async def scenario(broker: Broker) -> None:
        client = await asyncio.to_thread(fill_and_ask, broker.port)
        [connection] = broker.connections
        sender = connection._sender
        assert isinstance(sender, TlsSender)
        await becomes_true(lambda: not sender.is_idle)
        assert 0 < sender.encrypted_bytes <= limits.TLS_WRITE_BYTES_MAX + 4096
        assert sender.queued_bytes < 100_000, "records wait in their file"
        [topic] = (await asyncio.to_thread(client.receive, 1, 11)).responses
        assert len(topic.partitions[0].records) == 20 * len(batch)
        assert sender.is_idle
        client.socket.close()

    serve(tmp_path, settings(authority.issue("slow")), scenario)


@pytest.mark.parametrize(
    ("client_auth", "certificate", "expected"),
    [
        ("required", True, "User:alice"),
        ("requested", True, "User:alice"),
        ("requested", False, "User:ANONYMOUS"),
        ("none", True, "User:ANONYMOUS"),
        ("required", False, None),
    ],
)
def test_client_certificates(
    client_auth: str, certificate: bool, expected: str | None, authority: Authority, tmp_path: Path
) -> None:
    mine = authority.issue("client", subject="/O=example/CN=Alice") if certificate else None
    wanted = settings(
        authority.issue("server"),
        client_auth=client_auth,
        truststore_file=str(authority.certificate),
        principal_mapping_rules="RULE:^CN=(.*?),O=example$/$1/L",
    )

    def talk(port: int) -> Client | None:
        try:
            client = Client(port, client_context(authority, mine))
            client.ask(MetadataRequest(topics=None), 9)
        except (ssl.SSLError, ConnectionError):
            return None
        return client

    async def scenario(broker: Broker) -> None:
        client = await asyncio.to_thread(talk, broker.port)
        assert (client is None) == (expected is None)
        if client is not None:
            [connection] = broker.connections
            assert connection.access.client == (expected, "127.0.0.1")
            client.socket.close()

    serve(tmp_path, wanted, scenario)


def test_a_certificate_that_no_rule_matches_ends_the_connection(authority: Authority, tmp_path: Path) -> None:
    wanted = settings(
        authority.issue("strict"),
        client_auth="required",
        truststore_file=str(authority.certificate),
        principal_mapping_rules="RULE:^CN=nobody$/x/",
    )
    mine = authority.issue("unmatched", subject="/O=example/CN=Alice")

    def talk(port: int) -> None:
        with pytest.raises((ConnectionError, ssl.SSLError)):
            Client(port, client_context(authority, mine)).ask(MetadataRequest(topics=None), 9)

    async def scenario(broker: Broker) -> None:
        await asyncio.to_thread(talk, broker.port)

    serve(tmp_path, wanted, scenario)


def test_a_client_checks_the_host(authority: Authority, tmp_path: Path) -> None:
    def talk(port: int) -> None:
        with pytest.raises(ssl.SSLCertVerificationError, match="localhost"):
            Client(port, client_context(authority))

    async def scenario(broker: Broker) -> None:
        await asyncio.to_thread(talk, broker.port)

    serve(tmp_path, settings(authority.issue("elsewhere", hosts="DNS:elsewhere.example")), scenario)


def test_a_client_that_ends_tls_is_let_go(authority: Authority, tmp_path: Path) -> None:
    """asyncio's clients wait for the answer to their close_notify, for half a minute."""

    def talk(port: int) -> None:
        client = Client(port, client_context(authority))
        client.ask(MetadataRequest(topics=None), 9)
        client.socket.unwrap().close()

    async def scenario(broker: Broker) -> None:
        await asyncio.to_thread(talk, broker.port)
        await becomes_true(lambda: not broker.connections)

    serve(tmp_path, settings(authority.issue("ending")), scenario)


def test_a_plain_client_is_turned_away(authority: Authority, tmp_path: Path) -> None:
    def talk(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
            plain.sendall(framed(encode_request(MetadataRequest(topics=None), 9, 1)))
            try:
                return plain.recv(100)
            except ConnectionResetError:
                return b""

    async def scenario(broker: Broker) -> None:
        answer = await asyncio.to_thread(talk, broker.port)
        assert b"orders" not in answer
        assert len(answer) < 20, "an alert at most"

    serve(tmp_path, settings(authority.issue("plain")), scenario)


def test_a_client_that_is_muted_while_its_connection_is_about_to_read_on_stays_muted(
    authority: Authority, tmp_path: Path
) -> None:
    def connect(port: int) -> Client:
        client = Client(port, client_context(authority))
        client.ask(MetadataRequest(topics=None), 9)
        return client

    async def scenario(broker: Broker) -> None:
        client = await asyncio.to_thread(connect, broker.port)
        [connection] = broker.connections
        connection._pause_reading()
        connection._resume_reading()
        connection._mute(3_600_000)
        client.send(MetadataRequest(topics=None), 9)
        await asyncio.sleep(0.05)
        client.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(client.receive, 3, 9)
        connection._unmute = None
        connection._resume_reading()
        client.socket.settimeout(60)
        assert (await asyncio.to_thread(client.receive, 3, 9)).topics[0].name == "orders"
        client.socket.close()

    serve(tmp_path, settings(authority.issue("muted")), scenario)


def test_connections_above_a_limit_shake_no_hands(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those that are closed at once nor those of an address that has to wait (KIP-612)."""
    begun: list[TlsConnection] = []
    shake_hands = TlsConnection._shake_hands

    def counted(connection: TlsConnection) -> bool:
        begun.append(connection)
        return shake_hands(connection)

    monkeypatch.setattr(TlsConnection, "_shake_hands", counted)

    def connect(port: int) -> None:
        with pytest.raises((ssl.SSLError, OSError)):
            Client(port, client_context(authority))

    async def scenario(broker: Broker) -> None:
        opened = broker.server.opened

        def refused(connection: Connection) -> None:
            opened(connection)
            connection.close("too many connections")

        def throttled(connection: Connection) -> None:
            opened(connection)
            connection.close_later(100, "too often")

        for reaction in (refused, throttled):
            monkeypatch.setattr(broker.server, "opened", reaction)
            await asyncio.to_thread(connect, broker.port)
            await becomes_true(lambda: not broker.connections)
        assert begun == []
        monkeypatch.setattr(broker.server, "opened", opened)
        client = await asyncio.to_thread(Client, broker.port, client_context(authority))
        assert begun != []
        client.socket.close()

    serve(tmp_path, settings(authority.issue("limits")), scenario)


def client_hello(context: ssl.SSLContext) -> bytes:
    """What a client sends first."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def begun_handshake(port: int, context: ssl.SSLContext) -> socket.socket:
    """A client that begins a handshake and stops. The broker has answered when this returns."""
    stopped = socket.create_connection(("127.0.0.1", port), timeout=60)
    stopped.sendall(client_hello(context))
    assert stopped.recv(1)
    return stopped


def one_request(port: int, context: ssl.SSLContext) -> int:
    client = Client(port, context)
    topics = len(client.ask(MetadataRequest(topics=None), 9).topics)
    client.socket.close()
    return topics


def test_handshakes_in_flight_are_bounded(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TLS_HANDSHAKES_MAX", 1)
    monkeypatch.setattr(limits, "TLS_HANDSHAKES_WAITING_MAX", 1)
    monkeypatch.setattr(limits, "TLS_HANDSHAKE_TIMEOUT_WHILE_OTHERS_WAIT_S", 3600.0)
    context = client_context(authority)

    async def scenario(broker: Broker) -> None:
        stopped = await asyncio.to_thread(begun_handshake, broker.port, context)
        waiting = asyncio.get_running_loop().run_in_executor(None, one_request, broker.port, context)
        await becomes_true(lambda: len(broker.slots._waiting) == 1)
        third = socket.create_connection(("127.0.0.1", broker.port), timeout=60)
        third.sendall(client_hello(context))
        assert await asyncio.to_thread(third.recv, 1) == b"", "there is no room to wait"
        third.close()
        assert not waiting.done()
        stopped.close()
        assert await waiting == 1

    serve(tmp_path, settings(authority.issue("many")), scenario)


def test_a_handshake_that_stops_is_ended_when_others_wait(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TLS_HANDSHAKES_MAX", 2)
    patience_s = 60.0
    monkeypatch.setattr(limits, "TLS_HANDSHAKE_TIMEOUT_WHILE_OTHERS_WAIT_S", patience_s)
    context = client_context(authority)

    async def scenario(broker: Broker) -> None:
        stopped = [await asyncio.to_thread(begun_handshake, broker.port, context) for _ in range(2)]
        # They have stopped for nearly as long as they may. The others have all the time that they need.
        in_flight = broker.slots._in_flight
        in_flight.update({connection: begun_s - patience_s + 0.05 for connection, begun_s in in_flight.items()})
        loop = asyncio.get_running_loop()
        waiting = [loop.run_in_executor(None, one_request, broker.port, context) for _ in range(4)]
        assert await asyncio.gather(*waiting) == [1, 1, 1, 1]
        assert len(broker.connections) <= 1, "one of those that stopped was enough, or both"
        for each in stopped:
            each.close()

    serve(tmp_path, settings(authority.issue("stopped")), scenario)


def test_connections_that_say_nothing_take_no_place(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TLS_HANDSHAKES_MAX", 1)
    monkeypatch.setattr(limits, "TLS_HANDSHAKES_WAITING_MAX", 0)

    async def scenario(broker: Broker) -> None:
        silent = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(50)]
        await becomes_true(lambda: len(broker.connections) == 50)
        assert await asyncio.to_thread(one_request, broker.port, client_context(authority)) == 1
        for each in silent:
            each.close()

    serve(tmp_path, settings(authority.issue("silent")), scenario)


def test_a_handshake_that_ends_in_its_first_record_takes_no_place(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TLS_HANDSHAKES_MAX", 1)
    monkeypatch.setattr(limits, "TLS_HANDSHAKES_WAITING_MAX", 0)
    context = client_context(authority)
    hello = client_hello(context)

    def in_pieces(port: int, piece_bytes: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            for start in range(0, len(hello), piece_bytes):
                client.sendall(hello[start : start + piece_bytes])
            return client.recv(1)

    async def scenario(broker: Broker) -> None:
        half = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(50)]
        for number, each in enumerate(half):
            each.sendall(hello[: 1 + number % 10])
        await becomes_true(lambda: sum(bool(each._session._first_record) for each in broker.connections) == 50)
        assert await asyncio.to_thread(one_request, broker.port, context) == 1
        await becomes_true(lambda: len(broker.connections) == 50)
        assert await asyncio.to_thread(in_pieces, broker.port, 7) == b"\x16", "a handshake goes on"
        for each in half:
            each.close()

    serve(tmp_path, settings(authority.issue("half")), scenario)


def test_a_connection_that_says_nothing_is_closed_in_the_end(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TLS_HANDSHAKE_TIMEOUT_S", 0.05)

    async def scenario(broker: Broker) -> None:
        with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as silent:
            assert await asyncio.to_thread(silent.recv, 1) == b""
        await becomes_true(lambda: not broker.connections)

    serve(tmp_path, settings(authority.issue("mute")), scenario)


def test_a_new_connection_gets_the_renewed_certificate(authority: Authority, tmp_path: Path) -> None:
    keystore = authority.issue("rolling", subject="/O=example/CN=first")

    def subject(port: int) -> Client:
        return Client(port, client_context(authority))

    def common_name(client: Client) -> str:
        certificate: Any = client.socket.getpeercert()
        return str(dict(part[0] for part in certificate["subject"])["commonName"])

    async def scenario(broker: Broker) -> None:
        old = await asyncio.to_thread(subject, broker.port)
        authority.issue("rolled", subject="/O=example/CN=second").replace(keystore)
        broker.server._check_certificates()
        new = await asyncio.to_thread(subject, broker.port)
        assert (common_name(old), common_name(new)) == ("first", "second")
        answer = await asyncio.to_thread(old.ask, MetadataRequest(topics=None), 9)
        assert len(answer.topics) == 1, "an open connection goes on"
        old.socket.close()
        new.socket.close()

    serve(tmp_path, settings(keystore), scenario)
