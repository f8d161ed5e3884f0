"""One node and its clients in virtual time, with a network that delays every message by chance.

Everything that could differ between two runs comes from the seed, so a run can be repeated exactly: `trace` is what
happened, and the same seed gives the same trace. The node's files are real ones; nothing in the trace depends on them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from penstock.broker.housekeeping import Housekeeping
from penstock.broker.main import open_node, open_store
from penstock.broker.metrics import ListenerMetrics
from penstock.broker.network.listener_gate import ListenerGate
from penstock.broker.network.server import Server
from penstock.core.metrics import Metrics
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import Endpoint
from penstock.metadata.listener_security import ListenerSecurity
from penstock.protocol.codec import reader, response_class
from penstock.protocol.headers import response_header_version
from penstock.protocol.schema import Message
from tests.clocks import SeededEntropy
from tests.simulation.loop import SimulatedClock, SimulatedLoop
from tests.wire_client import encode_request, framed

LISTENER_NAME: Final = "PLAINTEXT"
DELAY_S_MAX: Final = 0.005
ANSWER_S_MAX: Final = 60


class Simulation:
    """Owns virtual time, chance and the trace; `node` is the broker under test."""

    def __init__(self, directory: Path, seed: int, **settings: str) -> None:
        self.loop = SimulatedLoop()
        self.random = random.Random(seed)
        self.trace: list[str] = []
        self.metrics = Metrics()
        named = {"log.dirs": str(directory), **{name.replace("_", "."): text for name, text in settings.items()}}
        config = BrokerConfig.load(overrides=[f"{name}={text}" for name, text in named.items()])
        entropy = SeededEntropy(seed)
        self.node = open_node(
            config,
            directory,
            open_store(config, directory, self.loop, entropy),
            self.loop,
            self._fail,
            clock=SimulatedClock(self.loop),
            entropy=entropy,
            metrics=self.metrics,
        )
        outcomes: list[object] = []
        self.node.register({LISTENER_NAME: Endpoint("broker", 9092)}, outcomes.append)
        self.loop.run_until_idle()
        assert outcomes == [None]
        self.node.open_topics()
        self.server = Server(self.node, self._new_sender)
        self.housekeeping = Housekeeping(self.node)
        self.housekeeping.start()
        self.loop.run_until_idle()

    def client(self, name: str, security: ListenerSecurity | None = None) -> SimulatedClient:
        """A client that is connected, to a listener with this security."""
        return SimulatedClient(self, name, security or ListenerSecurity(LISTENER_NAME))

    def run_for(self, seconds: float) -> None:
        self.loop.run_for(seconds)

    def note(self, text: str) -> None:
        self.trace.append(f"{self.loop.time() * 1000:.3f} {text}")

    def delay_s(self) -> float:
        return self.random.uniform(0, DELAY_S_MAX)

    def close(self) -> None:
        self.housekeeping.stop()
        self.server.close()
        self.node.close(clean=True)
        self.loop.run_until_idle()
        self.loop.close()

    def _fail(self, message: str) -> None:
        raise AssertionError(message)

    def _new_sender(self, client: Any, *callbacks: object) -> SimulatedSender:
        return SimulatedSender(client)


@contextmanager
def simulated(directory: Path, seed: int, **settings: str) -> Iterator[Simulation]:
    """Settings by Kafka's names, with underscores in place of the dots."""
    simulation = Simulation(directory, seed, **settings)
    try:
        yield simulation
    finally:
        simulation.close()


class SimulatedClient:
    """One connection, from the client's side. Messages arrive in their order, each after a delay of its own."""

    def __init__(self, simulation: Simulation, name: str, security: ListenerSecurity) -> None:
        self._simulation = simulation
        self.name = name
        self.answers: dict[int, Any] = {}
        self._sent: dict[int, tuple[int, int]] = {}  # API and version by correlation id
        self._received = bytearray()
        self._arrival_s = {"request": 0.0, "response": 0.0}
        traffic = ListenerMetrics(simulation.metrics, LISTENER_NAME)
        gate = None if security.sasl is None else ListenerGate(security.sasl, simulation.node)
        self._connection = simulation.server.new_connection(LISTENER_NAME, traffic, gate)
        self._transport = SimulatedTransport(self)
        self.is_connected = True
        self._unread: list[bytes] = []  # while the broker does not read
        self._connection.connection_made(self._transport)

    def send(self, request: Message, version: int) -> int:
        """Returns the correlation id, under which the answer will be found in `answers`."""
        correlation_id = len(self._sent) + 1
        assert request.API_KEY is not None
        self._sent[correlation_id] = (request.API_KEY, version)
        frame = framed(encode_request(request, version, correlation_id))
        self._simulation.note(f"{self.name} sends {type(request).__name__} {crc32(frame):08x}")
        self._deliver("request", self._arrive, frame)
        return correlation_id

    def ask(self, request: Message, version: int, *, within_s: float = 1.0) -> Any:
        """Lets time pass until the answer must be there."""
        correlation_id = self.send(request, version)
        self._simulation.run_for(within_s)
        return self.answers[correlation_id]

    def receive(self, api_key: int, version: int, correlation_id: int) -> Any:
        """Lets time pass until the answer is there; as the wire client does, so that it can take this one's place."""
        assert self._sent[correlation_id] == (api_key, version)
        deadline_s = self._simulation.loop.time() + ANSWER_S_MAX
        while correlation_id not in self.answers:
            self._simulation.run_for(DELAY_S_MAX)
            assert self._simulation.loop.time() < deadline_s, "there is no answer"
        return self.answers[correlation_id]

    @property
    def is_read(self) -> bool:
        """Whether the broker reads from this connection."""
        return self._transport.is_reading()

    def deliver(self, content: bytes) -> None:
        """Bytes that need not be a whole request, without a delay."""
        self._arrive(content)

    def hang_up(self) -> None:
        self.is_connected = False
        self._connection.connection_lost(None)

    def sent_by_broker(self, content: bytes) -> None:
        self._deliver("response", self._take, content)

    def _deliver(self, direction: str, arrive: Any, content: bytes) -> None:
        loop = self._simulation.loop
        when_s = max(self._arrival_s[direction], loop.time() + self._simulation.delay_s())
        self._arrival_s[direction] = when_s
        loop.call_at(when_s, arrive, content)

    def read_on(self) -> None:
        """The broker reads again."""
        unread, self._unread = self._unread, []
        for content in unread:
            self._arrive(content)

    def _arrive(self, content: bytes) -> None:
        if not self.is_connected:
            return
        if not self._transport.is_reading():
            self._unread.append(content)
            return
        buffer = self._connection.get_buffer(-1)
        buffer[: len(content)] = content
        self._connection.buffer_updated(len(content))

    def _take(self, content: bytes) -> None:
        self._received += content
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            frame = bytes(self._received[4:end])
            del self._received[:end]
            correlation_id = int.from_bytes(frame[:4], "big")
            api_key, version = self._sent[correlation_id]
            start = 5 if response_header_version(api_key, version) > 0 else 4
            read: Any = reader(response_class(api_key), version)
            self.answers[correlation_id], _ = read(memoryview(frame), start, len(frame))
            self._simulation.note(
                f"{self.name} receives {type(self.answers[correlation_id]).__name__} {crc32(frame):08x}"
            )


class SimulatedTransport(asyncio.Transport):
    """The transport of a connection; its "socket" is the client, which the sender writes to."""

    def __init__(self, client: SimulatedClient) -> None:
        super().__init__({"socket": client, "peername": (client.name, 1)})
        self._client = client
        self._is_reading = True

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._client.read_on()

    def abort(self) -> None:
        self._client.hang_up()


class SimulatedSender:
    """Takes everything at once; files are read, because there is nothing to send them to."""

    queued_bytes = 0
    is_idle = True

    def __init__(self, client: SimulatedClient) -> None:
        self._client = client

    def send(self, chunks: list[Any]) -> None:
        content = b"".join(
            chunk if isinstance(chunk, bytes | bytearray | memoryview) else chunk.read() for chunk in chunks
        )
        self._client.sent_by_broker(content)

    def close(self) -> None:
        """Nothing is held."""
