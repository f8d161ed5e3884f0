"""The text of another process's metrics: that of the broker, for `penstock up`, which serves both."""

from __future__ import annotations

import asyncio

from penstock.core import limits
from penstock.core.addresses import parse_host_port
from penstock.monitoring.http_server import PATH


async def fetch(address: str) -> bytes:
    """Raises OSError or TimeoutError if it cannot be had whole."""
    host, port = parse_host_port(address)
    async with asyncio.timeout(limits.METRICS_FETCH_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"GET {PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    if not status.startswith(b"HTTP/1.1 200 ") or f"Content-Length: {len(body)}".encode() not in headers:
        raise ConnectionError(f"{address} answers {status.decode(errors='replace')!r}, {len(body)} bytes")
    return body
