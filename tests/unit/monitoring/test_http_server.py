"""Requests of a scraper, and what a slow, large or hostile one can do. Real sockets, no clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from penstock.core import limits
from penstock.core.metrics import Metrics
from penstock.monitoring.http_server import MetricsServer, MetricsText, text_of
from penstock.monitoring.listening import CannotListen, address_of, bind

FIGURES = b"# HELP open Open.\n# TYPE open gauge\nopen 1\n"


async def figures() -> bytes:
    return FIGURES


@asynccontextmanager
async def serving(
    write: Callable[[], Awaitable[bytes]] = figures, *, head_timeout_s: float = 60, send_timeout_s: float = 60
) -> AsyncIterator[int]:
    bound = bind("127.0.0.1", 0, option="--metrics")
    server = MetricsServer(write, head_timeout_s=head_timeout_s, send_timeout_s=send_timeout_s)
    await server.listen(bound)
    try:
        yield bound.getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        bound.close()


async def ask(port: int, request: bytes) -> tuple[str, dict[str, str], bytes]:
    """Status line, headers and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    return status, dict(header.split(": ", 1) for header in headers), body


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes before the end, or before the peer hangs up."""
    received = b""
    try:
        while data := await reader.read(1 << 20):
            received += data
    except ConnectionError:
        pass
    return received


async def first_bytes(port: int) -> bytes:
    """Empty: the connection was cut off."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        return await reader.readexactly(8)
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""
    finally:
        writer.transport.abort()


def asked(request: bytes, write: Callable[[], Awaitable[bytes]] = figures) -> tuple[str, dict[str, str], bytes]:
    async def main() -> tuple[str, dict[str, str], bytes]:
        async with serving(write) as port:
            return await ask(port, request)

    return asyncio.run(main())


@pytest.mark.parametrize("target", ["/metrics", "/metrics?format=prometheus"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_get(target: str, version: str) -> None:
    status, headers, body = asked(f"GET {target} HTTP/{version}\r\nHost: here\r\nAccept: */*\r\n\r\n".encode())
    assert status == "HTTP/1.1 200 OK"
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["Content-Length"] == str(len(FIGURES))
    assert headers["Connection"] == "close"
    assert body == FIGURES


def test_head() -> None:
    status, headers, body = asked(b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert (status, headers["Content-Length"], body) == ("HTTP/1.1 200 OK", str(len(FIGURES)), b"")


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET /../metrics HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics\r\n\r\n", "400 Bad Request"),
        (b"GET http://here/metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"\x00\x00\x00\x20\x00\x12\x00\x04 a Kafka client\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nX: " + bytes(2 * limits.METRICS_HEAD_BYTES_MAX), "431 Request Header Fields"),
        (b"GET /metrics HTTP/1.1\r\nX: " + bytes(9 * 1024) + b"\r\n\r\n", "431 Request Header Fields"),
    ],
)
def test_refusals(request_text: bytes, status: str) -> None:
    answered, headers, _ = asked(request_text)
    assert answered.startswith(f"HTTP/1.1 {status}")
    assert ("Allow" in headers) == status.startswith("405")


def test_a_figure_that_fails_is_an_answer_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> bytes:
        raise ZeroDivisionError("figure")

    status, _, body = asked(b"GET /metrics HTTP/1.1\r\n\r\n", fail)
    assert status == "HTTP/1.1 500 Internal Server Error"
    assert b"figure" not in body
    assert "metrics cannot be written" in caplog.text


def test_connections_above_the_limit_are_cut_off_and_earlier_ones_served() -> None:
    async def main() -> None:
        async with serving() as port:
            first = [await asyncio.open_connection("127.0.0.1", port) for _ in range(limits.METRICS_CONNECTIONS_MAX)]
            for reader, writer in [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]:
                assert await rest(reader) == b""
                writer.close()
            for reader, writer in first:
                writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
                assert (await reader.read()).endswith(FIGURES)
                writer.close()
            # Their places are free again.
            assert (await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n"))[2] == FIGURES

    asyncio.run(main())


def test_a_scraper_that_does_not_finish_its_request_is_cut_off() -> None:
    async def main() -> None:
        async with serving(head_timeout_s=0.01) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.1\r\n")
            assert await rest(reader) == b""
            writer.close()

    asyncio.run(main())


def test_a_scraper_that_does_not_read_is_cut_off() -> None:
    async def main() -> None:
        size = 64 * 1024 * 1024
        async with serving(lambda: asyncio.sleep(0, bytes(size)), send_timeout_s=0.05) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            # This end stops reading at twice the limit. A place that is free again shows that it was cut off.
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(limits.METRICS_CONNECTIONS_MAX - 1)]
            answer = b""
            while not answer:
                answer = await first_bytes(port)
            assert answer == b"HTTP/1.1"
            assert len(await rest(reader)) < size
            for _, each in [(reader, writer), *idle]:
                each.close()

    asyncio.run(main())


def test_all_who_ask_at_once_share_one_text_and_it_is_kept_for_nine_times_its_cost() -> None:
    async def main() -> None:
        now_s = 0.0
        written = 0

        async def write() -> bytes:
            nonlocal now_s, written
            await asyncio.sleep(0)
            now_s += 0.1
            written += 1
            return str(written).encode()

        text = MetricsText(write, clock=lambda: now_s)
        assert await asyncio.gather(*(text.get() for _ in range(5))) == [b"1"] * 5
        now_s += 0.89
        assert await text.get() == b"1"
        now_s += 0.02
        assert await text.get() == b"2"
        assert written == 2

    asyncio.run(main())


def test_a_scraper_that_leaves_does_not_take_the_text_from_the_others() -> None:
    async def main() -> None:
        going_on = asyncio.Event()

        async def write() -> bytes:
            await going_on.wait()
            return FIGURES

        text = MetricsText(write)
        leaves, stays = asyncio.create_task(text.get()), asyncio.create_task(text.get())
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.sleep(0)
        going_on.set()
        assert await stays == FIGURES

    asyncio.run(main())


def test_figures_are_written_over_many_turns_of_the_loop() -> None:
    async def main() -> int:
        metrics = Metrics()
        partitions = 10 * limits.METRICS_LINES_PER_TURN
        metrics.gauge_reader(
            "size", "Sizes.", lambda: (({"partition": str(index)}, index) for index in range(partitions))
        )
        turns = 0
        done = asyncio.Event()

        async def count_turns() -> None:
            nonlocal turns
            while not done.is_set():
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        assert (await text_of(metrics)).count(b"\n") == partitions + 2
        done.set()
        await counting
        return turns

    assert asyncio.run(main()) >= 10


def test_a_port_that_is_taken_is_one_line() -> None:
    taken = bind("127.0.0.1", 0, option="--metrics")
    taken.listen()
    host, port = taken.getsockname()
    with pytest.raises(CannotListen, match=r"the address is already in use; .* choose another port with --metrics$"):
        bind(host, port, option="--metrics")
    assert address_of(taken) == f"127.0.0.1:{port}"
    taken.close()
