"""A member's connection before a server that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import pytest

from penstock.bench.group_connection import GroupConnection
from penstock.bench.measurement import MeasurementError
from penstock.protocol.codec import writer
from penstock.protocol.definitions.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.error_codes import ErrorCode

VERSION = 4
REQUEST = HeartbeatRequest(group_id="group", generation_id=1, member_id="member")
Answer = Callable[[int], bytes]
"""From the correlation id of a request to the bytes that answer it; none of them: the server hangs up."""


def heartbeat_answer(correlation_id: int, error: ErrorCode = ErrorCode.NONE) -> bytes:
    content = bytearray(struct.pack(">ix", correlation_id))
    writer(HeartbeatResponse, VERSION)(content, HeartbeatResponse(error_code=error))
    return struct.pack(">i", len(content)) + bytes(content)


def ask(*answers: Answer) -> HeartbeatResponse:
    """What a client makes of a server that gives these answers, one after the other."""

    async def serve(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        for answer in answers:
            (size,) = struct.unpack(">i", await incoming.readexactly(4))
            _key, _version, correlation_id = struct.unpack_from(">hhi", await incoming.readexactly(size))
            for byte in answer(correlation_id):
                outgoing.write(bytes([byte]))
                await asyncio.sleep(0)
        outgoing.close()
        await outgoing.wait_closed()

    async def run() -> HeartbeatResponse:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            connection = await GroupConnection.open(f"127.0.0.1:{port}")
            try:
                answer: HeartbeatResponse = await connection.ask(REQUEST, VERSION)
            finally:
                connection.abort()
        return answer

    return asyncio.run(run())


def test_an_answer_that_comes_byte_by_byte() -> None:
    answer = ask(lambda number: heartbeat_answer(number, ErrorCode.REBALANCE_IN_PROGRESS))
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_coordinator_that_is_still_loading_is_asked_again() -> None:
    answer = ask(
        lambda number: heartbeat_answer(number, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        lambda number: heartbeat_answer(number, ErrorCode.NOT_COORDINATOR),
        heartbeat_answer,
    )
    assert answer.error_code == ErrorCode.NONE


def test_an_answer_to_another_request() -> None:
    with pytest.raises(MeasurementError, match="another request"):
        ask(lambda number: heartbeat_answer(number + 1))


@pytest.mark.parametrize("size", [-1, 3, 1 << 30])
def test_an_answer_of_an_impossible_size(size: int) -> None:
    with pytest.raises(MeasurementError, match=f"a response of {size} bytes"):
        ask(lambda number: struct.pack(">ii", size, number))


def test_a_broker_that_hangs_up() -> None:
    with pytest.raises(ConnectionError, match="closed the connection"):
        ask(lambda _number: b"")
