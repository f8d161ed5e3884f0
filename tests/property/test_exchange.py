"""The exchange with arbitrary bytes from a peer: responses, or ProtocolError, and nothing else."""

from __future__ import annotations

import struct
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ProtocolError
from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.fetch import FetchRequest
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.exchange import Exchange, InFlightRequest, ReceiveBuffer

REQUESTS = [(MetadataRequest, 1), (MetadataRequest, 12), (FetchRequest, 4), (FetchRequest, 16), (ApiVersionsRequest, 4)]


def receive(exchange: Exchange, data: bytes, chunk_sizes: list[int]) -> list[InFlightRequest]:
    answered = []
    sizes = iter(chunk_sizes)
    while data and exchange.in_flight:
        room = exchange.get_buffer()
        count = min(len(data), len(room), next(sizes, len(data)))
        room[:count], data = data[:count], data[count:]
        done = exchange.advance(count)
        if done is not None:
            answered.append(done)
    return answered


@given(st.sampled_from(REQUESTS), st.binary(max_size=200), st.lists(st.integers(1, 20)), st.booleans())
def test_any_response_is_decoded_or_refused(
    request_and_version: tuple[type[MetadataRequest | FetchRequest | ApiVersionsRequest], int],
    body: bytes,
    chunk_sizes: list[int],
    reuses_buffer: bool,
) -> None:
    request, version = request_and_version
    exchange = Exchange("peer", "tester")
    sent, _ = exchange.send(request(), version, into=ReceiveBuffer() if reuses_buffer else None)
    data = struct.pack(">ii", 4 + len(body), sent.correlation_id) + body
    assert receive(exchange, data, chunk_sizes) == [sent]
    with suppress(ProtocolError):
        sent.decode()


@given(st.binary(min_size=8, max_size=200), st.lists(st.integers(1, 20)))
def test_arbitrary_bytes_are_refused(data: bytes, chunk_sizes: list[int]) -> None:
    exchange = Exchange("peer", "tester", response_bytes_max=10_000)
    sent, _ = exchange.send(MetadataRequest(), 12)
    try:
        answered = receive(exchange, data, chunk_sizes)
    except ProtocolError:
        return
    # Only a response with the right correlation id is accepted, and it may be incomplete.
    assert struct.unpack_from(">i", data, 4) == (sent.correlation_id,)
    assert answered in ([], [sent])
