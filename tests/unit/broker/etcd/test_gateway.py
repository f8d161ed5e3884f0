"""etcd's gateway over HTTP: members that are away, hang or are something else, answers in pieces, and refusals."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from penstock.broker.etcd.gateway import EtcdGateway
from penstock.broker.etcd.http_connection import HttpConnection, Member
from penstock.metadata.key_value_store import (
    NO_REVISION,
    Compare,
    KeyChange,
    KeyValue,
    LeaseId,
    LeaseNotFound,
    Put,
    Revision,
    RevisionCompacted,
    StoreRefused,
    StoreUnavailable,
    WatchedChanges,
)

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Answers every request with the next of `answers`, over and over with the last one."""

    answers: list[Answer]
    member: Member = field(init=False)
    requests: list[tuple[str, dict[str, str], dict[str, object]]] = field(default_factory=list)
    connections: int = 0
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _is_closed: bool = False

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.append(writer)
        self._tasks.append(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def close(self) -> None:
        self._is_closed = True
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                self.was_asked.set()
                self.requests.append((head[0].split()[1], headers, json.loads(body)))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def answer(message: object, status: str = "200 OK") -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def error(code: int, text: str) -> bytes:
    return answer({"error": text, "code": code, "message": text}, "400 Bad Request")


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[Server]:
    server = Server(list(answers))
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.member = Member("127.0.0.1", listening.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listening.close()
        await server.close()


@asynccontextmanager
async def connected(*members: Member, user: str | None = None) -> AsyncIterator[EtcdGateway]:
    # No test waits for a time: what does not answer is made to.
    gateway = EtcdGateway(members, call_timeout_s=60, user=user, password="secret")
    try:
        yield gateway
    finally:
        await gateway.close()


async def unused_member() -> Member:
    listening = await asyncio.start_server(lambda reader, writer: writer.transport.abort(), "127.0.0.1", 0)
    port: int = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    return Member("127.0.0.1", port)


def text(value: str) -> str:
    return b64encode(value.encode()).decode()


HEADER = {"header": {"revision": "7"}}
ONE_KEY = answer({**HEADER, "kvs": [{"key": text("/a"), "value": text("1"), "mod_revision": "5", "lease": "9"}]})


async def never(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


def run(scenario: Awaitable[None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(main())


def test_a_read_names_the_range_and_reuses_its_connection() -> None:
    async def scenario() -> None:
        async with serving(ONE_KEY) as server, connected(server.member) as gateway:
            for _ in range(3):
                found = await gateway.read("/a", "/b", revision=Revision(6), limit=4)
            assert found.entries == (KeyValue("/a", b"1", Revision(5), LeaseId(9)),)
            assert found.revision == 6
            assert server.connections == 1
            request = {"key": text("/a"), "range_end": text("/b"), "revision": "6", "limit": "4"}
            assert [(path, body) for path, _, body in server.requests] == 3 * [("/v3/kv/range", request)]

    run(scenario())


def test_a_commit_sends_compares_and_operations() -> None:
    async def scenario() -> None:
        async with serving(answer({**HEADER, "succeeded": True})) as server, connected(server.member) as gateway:
            commit = await gateway.commit([Compare("/a", NO_REVISION)], [Put("/a", b"1", LeaseId(9))])
            assert (commit.succeeded, commit.revision) == (True, 7)
            assert server.requests[0][2] == {
                "compare": [{"key": text("/a"), "target": "MOD", "result": "EQUAL", "mod_revision": "0"}],
                "success": [{"request_put": {"key": text("/a"), "value": text("1"), "lease": "9"}}],
            }

    run(scenario())


def test_a_member_that_refuses_connections_is_passed_over() -> None:
    async def scenario() -> None:
        async with serving(ONE_KEY) as server, connected(await unused_member(), server.member) as gateway:
            assert (await gateway.read("/a")).entries
            assert (await gateway.read("/a")).entries
            assert server.connections == 1

    run(scenario())


def test_without_any_member_every_one_is_named() -> None:
    async def scenario() -> None:
        members = [await unused_member(), await unused_member()]
        async with connected(*members) as gateway:
            with pytest.raises(StoreUnavailable) as failure:
                await gateway.read("/a")
            assert str(failure.value) == (
                f"etcd cannot be reached: {members[0]}: connection refused; {members[1]}: connection refused"
            )

    run(scenario())


def test_a_member_that_does_not_answer_in_time_is_left_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    send = HttpConnection.send

    async def time_out_once(connection: HttpConnection, path: str, body: bytes, headers: Mapping[str, str]) -> int:
        monkeypatch.setattr(HttpConnection, "send", send)
        raise TimeoutError

    async def scenario() -> None:
        async with (
            serving(never) as hanging,
            serving(ONE_KEY) as server,
            connected(hanging.member, server.member) as gateway,
        ):
            monkeypatch.setattr(HttpConnection, "send", time_out_once)
            with pytest.raises(StoreUnavailable, match=f"etcd at {hanging.member} does not answer"):
                await gateway.read("/a")
            assert (await gateway.read("/a")).entries

    run(scenario())


@pytest.mark.parametrize(
    "broken", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"\x00" * 100]
)
def test_a_connection_that_breaks_is_unavailable_and_the_next_call_goes_elsewhere(broken: bytes) -> None:
    async def close(writer: asyncio.StreamWriter) -> None:
        writer.write(broken)
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        async with serving(close) as bad, serving(ONE_KEY) as good, connected(bad.member, good.member) as gateway:
            with pytest.raises(StoreUnavailable) as failure:
                await gateway.read("/a")
            assert "\n" not in str(failure.value)
            assert (await gateway.read("/a")).entries

    run(scenario())


@pytest.mark.parametrize(
    ("reply", "expected", "message"),
    [
        (error(5, "etcdserver: requested lease not found"), LeaseNotFound, "lease"),
        (error(11, "etcdserver: mvcc: required revision has been compacted"), RevisionCompacted, "compacted"),
        (error(7, "etcdserver: permission denied"), StoreRefused, "permission denied"),
        (error(8, "etcdserver: mvcc: database space exceeded"), StoreRefused, "space exceeded"),
        (error(8, "etcdserver: too many requests"), StoreUnavailable, "too many requests"),
        (error(14, "etcdserver: no leader"), StoreUnavailable, "no leader"),
        (error(2, "context canceled"), StoreUnavailable, "context canceled"),
        (answer(b"<html>busy</html>", "503 Service Unavailable"), StoreUnavailable, "does not answer as etcd does"),
        (answer(b"404 page not found\n", "404 Not Found"), StoreRefused, "no etcd of version 3.4 or newer"),
        (answer(b"[]"), StoreUnavailable, "does not answer as etcd does"),
    ],
)
def test_errors_say_whether_the_call_may_be_repeated(reply: bytes, expected: type[Exception], message: str) -> None:
    async def scenario() -> None:
        async with serving(reply) as server, connected(server.member) as gateway:
            with pytest.raises(expected, match=message):
                await gateway.read("/a")

    run(scenario())


def test_a_lease_that_has_no_time_left_is_gone() -> None:
    async def scenario() -> None:
        alive, over = {"result": {**HEADER, "ID": "9", "TTL": "9"}}, {"result": {**HEADER, "ID": "9"}}
        async with serving(answer(alive), answer(over)) as server, connected(server.member) as gateway:
            await gateway.keep_alive(LeaseId(9))
            with pytest.raises(LeaseNotFound):
                await gateway.keep_alive(LeaseId(9))

    run(scenario())


def streamed(*pieces: bytes) -> Answer:
    """A response that goes on; each piece is sent on its own."""

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    return send


def event(key: str, revision: int, value: str | None = "1") -> dict[str, object]:
    kv = {"key": text(key), "mod_revision": str(revision)}
    return {"type": "DELETE", "kv": kv} if value is None else {"kv": {**kv, "value": text(value)}}


def test_a_watch_groups_by_revision_however_the_bytes_arrive() -> None:
    events = [event("/a", 5), event("/b", 5, None), event("/c", 6)]
    lines = b"".join(
        json.dumps({"result": each}).encode() + b"\n"
        for each in ({**HEADER, "created": True}, {**HEADER, "events": events})
    )
    pieces = [lines[at : at + 7] for at in range(0, len(lines), 7)]

    async def scenario() -> None:
        async with serving(streamed(*pieces)) as server, connected(server.member) as gateway:
            watched = gateway.watch("/", after=Revision(4))
            assert await anext(watched) == WatchedChanges(Revision(5), (KeyChange("/a", b"1"), KeyChange("/b", None)))
            assert await anext(watched) == WatchedChanges(Revision(6), (KeyChange("/c", b"1"),))
            await watched.aclose()
            path, headers, body = server.requests[0]
            assert (path, headers["grpc-metadata-hasleader"]) == ("/v3/watch", "true")
            assert body["create_request"]["start_revision"] == "5"  # type: ignore[index]

    run(scenario())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"result": {**HEADER, "canceled": True, "compact_revision": "9"}}, RevisionCompacted),
        ({"result": {**HEADER, "canceled": True, "cancel_reason": "no leader"}}, StoreUnavailable),
        ({"error": {"grpc_code": 14, "message": "etcdserver: no leader"}}, StoreUnavailable),
        ({"error": {"grpc_code": 7, "message": "permission denied"}}, StoreRefused),
    ],
)
def test_a_watch_that_etcd_ends_says_why(line: dict[str, object], expected: type[Exception]) -> None:
    async def scenario() -> None:
        reply = streamed(json.dumps(line).encode() + b"\n")
        async with serving(reply) as server, connected(server.member) as gateway:
            with pytest.raises(expected):
                await anext(gateway.watch("/", after=Revision(4)))

    run(scenario())


def test_a_token_that_etcd_forgot_is_replaced() -> None:
    async def scenario() -> None:
        answers = (
            answer({**HEADER, "token": "one"}),
            error(16, "etcdserver: invalid auth token"),
            answer({**HEADER, "token": "two"}),
            ONE_KEY,
        )
        async with serving(*answers) as server, connected(server.member, user="penstock") as gateway:
            assert (await gateway.read("/a")).entries
            assert [path for path, _, _ in server.requests] == 2 * ["/v3/auth/authenticate", "/v3/kv/range"]
            assert server.requests[0][2] == {"name": "penstock", "password": "secret"}
            assert [headers.get("authorization") for _, headers, _ in server.requests] == [None, "one", None, "two"]

    run(scenario())


def test_a_wrong_password_is_final() -> None:
    async def scenario() -> None:
        refusal = error(3, "etcdserver: authentication failed, invalid user ID or password")
        async with serving(refusal) as server, connected(server.member, user="penstock") as gateway:
            with pytest.raises(StoreRefused, match="authentication failed"):
                await gateway.read("/a")

    run(scenario())


def test_a_call_that_is_cancelled_leaves_no_answer_for_the_next_one() -> None:
    async def scenario() -> None:
        async with serving(never, ONE_KEY) as server, connected(server.member) as gateway:
            call = asyncio.ensure_future(gateway.read("/b"))
            await server.was_asked.wait()
            call.cancel()
            assert (await gateway.read("/a")).entries[0].key == "/a"
            assert server.connections == 2

    run(scenario())
