"""A proxy between clients and a broker that cuts connections: all of them now, or one in the middle of what it says.

Owns a port, which stays the same while the broker behind it comes and goes, and a thread. It looks at nothing but the
API key of what a client sends, and takes each piece that arrives for whole requests: where that is wrong, a cut comes
at another moment than planned, and does no other harm.

Invariant: what is passed on is passed on unchanged and in order, up to the cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Self, TypeVar

from penstock.protocol.definitions.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.definitions.add_partitions_to_txn import AddPartitionsToTxnRequest
from penstock.protocol.definitions.end_txn import EndTxnRequest
from penstock.protocol.definitions.produce import ProduceRequest
from penstock.protocol.definitions.txn_offset_commit import TxnOffsetCommitRequest
from penstock.protocol.schema import Message

_T = TypeVar("_T")

_HOST: Final = "127.0.0.1"
_PIECE_BYTES: Final = 1 << 18
_API_KEY: Final = struct.Struct(">4xh")
# What a copy is made of. Fetches and heartbeats are by far the most, and their loss is the least interesting.
CUT_REQUESTS: Final[tuple[type[Message], ...]] = (
    ProduceRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
    EndTxnRequest,
)


class Cut(Enum):
    """Where a connection is cut."""

    ALL_NOW = "all at once"
    IN_REQUEST = "in a request"  # the broker has the beginning of it
    BEFORE_ANSWER = "before the answer"  # the broker did what was asked, and the client is not told


@dataclass(eq=False, slots=True)
class _Link:
    """A client's connection, and the one to the broker that was made for it."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    answer_is_lost: bool = False

    def cut(self) -> None:
        for writer in (self.client, self.broker):
            writer.transport.abort()


class CuttingProxy:
    """A context manager. While nobody listens on the broker's port, every connection is closed at once."""

    def __init__(self, broker_port: int, seed: int) -> None:
        self._broker_port = broker_port
        self.cuts: Counter[Cut] = Counter()
        self._chance = random.Random(seed)
        self._planned: dict[int, Cut] = {}  # by the API key of the request that they wait for
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"{_HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, _HOST, 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_exception: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut_all(self) -> None:
        async def cut() -> None:
            for link in self._links:
                link.cut()
                self.cuts[Cut.ALL_NOW] += 1

        self._run(cut())

    def cut_next(self, request: type[Message], where: Cut) -> None:
        """Cuts the connection over which the next request of this kind comes."""
        assert request.API_KEY is not None
        api_key = request.API_KEY

        async def plan() -> None:
            self._planned[api_key] = where

        self._run(plan())

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for link in self._links:
            link.cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(_HOST, self._broker_port)
        except OSError:
            to_client.transport.abort()
            return
        link = _Link(to_client, to_broker)
        self._links.add(link)
        try:
            await asyncio.gather(self._pass_requests(from_client, link), self._pass_answers(from_broker, link))
        finally:
            self._links.discard(link)
            link.cut()

    async def _pass_requests(self, requests: asyncio.StreamReader, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while piece := await requests.read(_PIECE_BYTES):
                cut = None
                if len(piece) >= _API_KEY.size:
                    cut = self._planned.pop(_API_KEY.unpack_from(piece)[0], None)
                if cut is Cut.IN_REQUEST:
                    self.cuts[cut] += 1
                    link.broker.write(piece[: self._chance.randrange(1, len(piece))])
                    # The transport has most probably sent this by itself; an abort drops what it has not.
                    await link.broker.drain()
                    break
                link.answer_is_lost = link.answer_is_lost or cut is Cut.BEFORE_ANSWER
                link.broker.write(piece)
                await link.broker.drain()
        link.cut()

    async def _pass_answers(self, answers: asyncio.StreamReader, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while piece := await answers.read(_PIECE_BYTES):
                if link.answer_is_lost:
                    self.cuts[Cut.BEFORE_ANSWER] += 1
                    break
                link.client.write(piece)
                await link.client.drain()
        link.cut()
