"""Requests to handlers: paths, methods, content types and sizes, answered as Kafka Connect's server answers them.

Owns the dispatch. Handlers are plain functions that may block; each runs in a thread.

Invariants:
- A path is matched by its segments as they were sent, and decoded after: a name may contain `/`, `%` and `?`.
- No handler sees a body above the limit, and every answer that is an error has the body of Kafka Connect's errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from penstock.connect.herder.herder import ConnectRestError
from penstock.connect.rest.messages import JSON, Result, error_response, http_error, json_response

BODY_BYTES_MAX: Final = 4 << 20
REQUEST_TIMEOUT_S: Final = 90.0  # as in Kafka Connect
_THREADS: Final = 64  # of each listener; herders may block, and health must still be answered
_log: Final = logging.getLogger(__name__)
_limiter: Final[RunVar[anyio.CapacityLimiter]] = RunVar("connect-rest-threads")


@dataclass(frozen=True, slots=True)
class Call:
    """A request, for its handler. `names` are the decoded segments that the route leaves open."""

    names: Sequence[str]
    query: Mapping[str, Sequence[str]]
    content: bytes
    url: str

    def flag(self, name: str, *, default: bool = False) -> bool:
        """As Java's Boolean.valueOf: every word but `true` is false."""
        values = self.query.get(name)
        return default if not values else values[-1].lower() == "true"

    def option(self, name: str) -> str | None:
        values = self.query.get(name)
        return values[-1] if values else None


Handler = Callable[[Call], Result]


@dataclass(frozen=True, slots=True)
class Route:
    """`path` as OpenAPI writes it: `/connectors/{connector}/status`."""

    method: str
    path: str
    handler: Handler
    summary: str
    takes_body: bool = False
    query: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[int, str] = field(default_factory=lambda: {200: "OK"})

    @property
    def segments(self) -> list[str]:
        return [each for each in self.path.split("/") if each]

    def match(self, segments: Sequence[str]) -> list[str] | None:
        own = self.segments
        if len(own) != len(segments):
            return None
        names = []
        for expected, found in zip(own, segments, strict=True):
            if expected.startswith("{"):
                names.append(unquote(found))
            elif expected != found:
                return None
        return names


class Router:
    """An ASGI application over a table of routes. The first route that matches a path and a method answers."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        try:
            response = await self._respond(Request(scope, receive))
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        raw_path = request.scope.get("raw_path") or request.scope["path"].encode()
        segments = [each for each in raw_path.decode("latin-1").split("?")[0].split("/") if each]
        matching = [(route, names) for route in self.routes if (names := route.match(segments)) is not None]
        if not matching:
            return http_error(404)
        methods = {route.method for route, _names in matching}
        if request.method == "OPTIONS":
            allowed = sorted({*methods, "OPTIONS", *({"HEAD"} if "GET" in methods else ())})
            return PlainTextResponse(", ".join(allowed), headers={"Allow": ",".join(allowed)})
        method = "GET" if request.method == "HEAD" else request.method
        found = next(((route, names) for route, names in matching if route.method == method), None)
        if found is None:
            return http_error(405, {"Allow": ",".join(sorted(methods))})
        response = await self._answer(request, *found)
        if request.method == "HEAD":
            return Response(status_code=response.status_code, headers={"Content-Type": JSON})
        return response

    async def _answer(self, request: Request, route: Route, names: Sequence[str]) -> Response:
        if not _accepts_json(request.headers.get("accept")):
            return http_error(406)
        content = await _body(request)
        if content is None:
            return http_error(413)
        if route.takes_body and content and not _is_json(request.headers.get("content-type")):
            return http_error(415)
        query = parse_qs(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        call = Call(names, query, content, f"{request.url.scheme}://{request.url.netloc}")
        try:
            with anyio.fail_after(REQUEST_TIMEOUT_S):
                result = await anyio.to_thread.run_sync(route.handler, call, abandon_on_cancel=True, limiter=_threads())
        except ConnectRestError as refused:
            return error_response(refused.status, str(refused))
        except TimeoutError:
            return error_response(500, "Request timed out. The worker may be waiting for topics or for other workers.")
        except Exception as failure:
            # The boundary of request dispatch: one request fails, and the log has the trace.
            _log.exception("%s %s failed", request.method, request.scope["path"])
            return error_response(500, str(failure) or type(failure).__name__)
        return json_response(result)


def _threads() -> anyio.CapacityLimiter:
    """Each listener has an event loop of its own, and a limiter belongs to one."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _limiter.set(limiter)
        return limiter


async def _body(request: Request) -> bytes | None:
    """None: it is too large."""
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > BODY_BYTES_MAX:
            return None
    return bytes(parts)


def _is_json(content_type: str | None) -> bool:
    return (content_type or "").split(";")[0].strip().lower() == JSON


def _accepts_json(accept: str | None) -> bool:
    if not accept:
        return True
    kinds = {each.split(";")[0].strip().lower() for each in accept.split(",")}
    return bool(kinds & {JSON, "application/*", "*/*"})
