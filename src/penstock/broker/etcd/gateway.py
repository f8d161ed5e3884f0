"""`KeyValueStore` on etcd's gateway: its API version 3 as JSON over HTTP, on the same ports as its gRPC.

The members are tried in turn: a call that could not be sent goes to the next one, a call that was sent is left to the
caller to repeat (`StoreUnavailable`), on the next member. Calls share a few connections; each watch has its own, which
the member ends when it has lost its leader.

Invariant: no call takes longer than `call_timeout_s` for one member, so that a member that hangs is noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from penstock.broker.etcd.http_connection import (
    CONNECT_TIMEOUT_S,
    ConnectionFailed,
    HttpConnection,
    Member,
    NotConnected,
)
from penstock.broker.etcd.messages import (
    Message,
    TokenExpired,
    compare_message,
    decode,
    encode,
    error_of,
    key_value_of,
    operation_message,
    range_message,
    revision_of,
    watched_changes_of,
)
from penstock.metadata.key_value_store import (
    NO_REVISION,
    Commit,
    Compare,
    Delete,
    Lease,
    LeaseId,
    LeaseNotFound,
    Put,
    Revision,
    RevisionCompacted,
    Snapshot,
    StoreRefused,
    StoreUnavailable,
    WatchedChanges,
    prefix_end,
)

CALL_TIMEOUT_S: Final = 5.0
_IDLE_CONNECTIONS_MAX: Final = 4
_WATCH_LINE_BYTES_MAX: Final = 256 << 20
_HTTP_OK: Final = 200
_HTTP_NOT_FOUND: Final = 404
_REQUIRE_LEADER: Final = {"Grpc-Metadata-hasleader": "true"}


class EtcdGateway:
    """Implements `KeyValueStore`."""

    def __init__(
        self,
        members: Sequence[Member],
        *,
        tls: ssl.SSLContext | None = None,
        user: str | None = None,
        password: str | None = None,
        call_timeout_s: float = CALL_TIMEOUT_S,
        keep_alive_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        assert members
        self._members = members
        self._current = 0
        self._tls = tls
        self._user = user
        self._password = password
        self._token: str | None = None
        self._call_timeout_s = call_timeout_s
        self._keep_alive_timeout_s = keep_alive_timeout_s
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._is_closed = False

    # KeyValueStore

    async def read(
        self, key: str, end: str | None = None, *, revision: Revision = NO_REVISION, limit: int = 0
    ) -> Snapshot:
        request = range_message(key, end)
        if revision:
            request["revision"] = str(revision)
        if limit:
            request["limit"] = str(limit)
        answer = await self._call("/v3/kv/range", request)
        entries = tuple(key_value_of(each) for each in answer.get("kvs", ()))
        return Snapshot(revision or revision_of(answer), entries, bool(answer.get("more")))

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Commit:
        request = {
            "compare": [compare_message(compare) for compare in compares],
            "success": [operation_message(operation) for operation in operations],
        }
        answer = await self._call("/v3/kv/txn", request)
        return Commit(bool(answer.get("succeeded")), revision_of(answer))

    async def watch(self, prefix: str, *, after: Revision) -> AsyncGenerator[WatchedChanges]:
        request = {
            "create_request": {
                **range_message(prefix, prefix_end(prefix)),
                "start_revision": str(after + 1),
                "progress_notify": True,
            }
        }
        async with contextlib.aclosing(self._stream("/v3/watch", request)) as answers:
            async for answer in answers:
                if int(answer.get("compact_revision", 0)):
                    raise RevisionCompacted(f"the history after revision {after} is compacted")
                if answer.get("canceled"):
                    raise StoreUnavailable(f"etcd ended the watch: {answer.get('cancel_reason') or 'no reason given'}")
                for changes in watched_changes_of(answer.get("events", ())):
                    yield changes

    async def grant_lease(self, ttl_ms: int) -> Lease:
        answer = await self._call("/v3/lease/grant", {"TTL": str(-(-ttl_ms // 1000))})
        return Lease(LeaseId(int(answer["ID"])), int(answer["TTL"]) * 1000)

    async def keep_alive(self, lease_id: LeaseId) -> None:
        answer = await self._call("/v3/lease/keepalive", {"ID": str(lease_id)}, self._keep_alive_timeout_s)
        if int(answer.get("result", {}).get("TTL", 0)) <= 0:
            raise LeaseNotFound(f"the lease {lease_id:x} has expired")

    async def revoke_lease(self, lease_id: LeaseId) -> None:
        with contextlib.suppress(LeaseNotFound):
            await self._call("/v3/lease/revoke", {"ID": str(lease_id)})

    async def close(self) -> None:
        self._is_closed = True
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    # Calls and streams

    async def _call(self, path: str, request: Mapping[str, Any], timeout_s: float | None = None) -> Message:
        timeout_s = timeout_s or self._call_timeout_s
        for _ in range(2):
            try:
                return await self._send(path, request, await self._headers(), timeout_s)
            except TokenExpired as expired:
                self._token = None
                refusal = expired
        raise StoreRefused(f"etcd refuses the user and password: {refusal}")

    async def _headers(self) -> dict[str, str]:
        if self._user is None:
            return {}
        if self._token is None:
            request = {"name": self._user, "password": self._password or ""}
            answer = await self._send("/v3/auth/authenticate", request, {}, self._call_timeout_s)
            self._token = str(answer["token"])
        return {"Authorization": self._token}

    async def _send(
        self, path: str, request: Mapping[str, Any], headers: Mapping[str, str], timeout_s: float
    ) -> Message:
        connection = await self._connected(timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                status = await connection.send(path, encode(request), headers)
                body = b"".join([piece async for piece in connection.body()])
        except TimeoutError:
            self._lose(connection)
            raise StoreUnavailable(f"etcd at {connection.member} does not answer") from None
        except ConnectionFailed as failure:
            self._lose(connection)
            raise StoreUnavailable(f"etcd at {failure}") from None
        except BaseException:  # cancelled in the middle of an answer
            self._drop(connection)
            raise
        self._keep(connection)
        return self._answer(connection.member, status, body)

    def _answer(self, member: Member, status: int, body: bytes) -> Message:
        if status == _HTTP_NOT_FOUND and not body.startswith(b"{"):
            raise StoreRefused(f"{member} is no etcd of version 3.4 or newer, or its gateway is switched off")
        answer = decode(body, member)
        # A stream of one message, as that of a keep-alive, has its error in a body with status 200.
        if status != _HTTP_OK or "error" in answer:
            error = error_of(answer, member)
            if isinstance(error, StoreUnavailable):
                self._next_member(member)
            raise error
        return answer

    async def _stream(self, path: str, request: Mapping[str, Any]) -> AsyncGenerator[Message]:
        headers = {**await self._headers(), **_REQUIRE_LEADER}
        connection = await self._connected(self._call_timeout_s, fresh=True)
        try:
            async with asyncio.timeout(self._call_timeout_s):
                status = await connection.send(path, encode(request), headers)
            rest = b""
            async for piece in connection.body():
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > _WATCH_LINE_BYTES_MAX:
                    raise StoreUnavailable(f"etcd at {connection.member} sends a message without an end")
                for line in filter(None, lines):
                    yield self._streamed(connection.member, status, line)
            if rest:
                yield self._streamed(connection.member, status, rest)
            raise ConnectionFailed(f"{connection.member} ended the watch")
        except TimeoutError:
            self._next_member(connection.member)
            raise StoreUnavailable(f"etcd at {connection.member} does not answer") from None
        except ConnectionFailed as failure:
            self._next_member(connection.member)
            raise StoreUnavailable(f"etcd at {failure}") from None
        finally:
            self._drop(connection)

    def _streamed(self, member: Member, status: int, line: bytes) -> Message:
        try:
            result = self._answer(member, status, line).get("result", {})
        except TokenExpired as expired:
            self._token = None
            raise StoreUnavailable(f"etcd at {member}: {expired}") from None
        assert isinstance(result, dict)
        return result

    # Connections

    async def _connected(self, timeout_s: float, *, fresh: bool = False) -> HttpConnection:
        """A connection to the current member, or to the first one behind it that accepts one."""
        if self._is_closed:
            raise StoreUnavailable("the connection to etcd was closed")
        while self._idle and not fresh:
            connection = self._idle.pop()
            if connection.is_reusable and connection.member == self._members[self._current]:
                return connection
            self._drop(connection)
        failures: list[str] = []
        for _ in self._members:
            member = self._members[self._current]
            try:
                connection = await HttpConnection.open(member, self._tls, min(timeout_s, CONNECT_TIMEOUT_S))
            except NotConnected as failure:
                failures.append(str(failure))
                self._next_member(member)
                continue
            self._open.add(connection)
            return connection
        raise StoreUnavailable("etcd cannot be reached: " + "; ".join(failures))

    def _keep(self, connection: HttpConnection) -> None:
        if connection.is_reusable and len(self._idle) < _IDLE_CONNECTIONS_MAX and not self._is_closed:
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _lose(self, connection: HttpConnection) -> None:
        self._drop(connection)
        self._next_member(connection.member)

    def _drop(self, connection: HttpConnection) -> None:
        connection.close()
        self._open.discard(connection)

    def _next_member(self, failed: Member) -> None:
        """Of several calls that fail together on one member, only the first moves on."""
        if self._members[self._current] == failed:
            self._current = (self._current + 1) % len(self._members)
