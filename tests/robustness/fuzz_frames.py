"""A million spoiled frames against a real broker. Run by `make fuzz`.

    python -m tests.robustness.fuzz_frames --frames 1000000 --seed 1 --connections 8
    python -m tests.robustness.fuzz_frames --as stranger                   who does not authenticate; or --as user
    python -m tests.robustness.fuzz_frames --seed 1 --replay 4711          the one burst that a failure named
    python -m tests.robustness.fuzz_frames --seed 1 --replay 0-4711        with everything before it

Frames travel in bursts (`fuzz_bursts.py`), each made from the seed and its number alone. What must hold: every frame
that is a request gets its own answer, every other one a closed connection; the broker prints nothing, stays alive and
keeps its memory; and a client beside the fuzzer writes and reads without noticing (`neighbour.py`). Topics that fuzzed
requests have created are deleted now and then, and the fuzzed ones made anew, so that the disk does not fill.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from penstock.broker.main import RUNTIME_FILE
from penstock.metadata.broker_config_definitions import STANDARD_AUTHORIZER
from penstock.protocol.definitions.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.definitions.delete_topics import DeleteTopicsRequest
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.testing import Broker
from tests.robustness.fuzz_bursts import Burst, BurstMaker
from tests.robustness.fuzz_connections import (
    BEFORE_AUTHENTICATION,
    USER,
    BurstFailure,
    FuzzedConnection,
    StrangersConnection,
)
from tests.robustness.fuzz_corpus import SERVED, TOPIC_CONFIGURATIONS
from tests.robustness.neighbour import MEGABYTE, Neighbour, resident_bytes
from tests.robustness.printed_lines import unexpected_lines
from tests.wire_client import ConnectionClosed, WireClient

FRAMES: Final = 1_000_000
CONNECTIONS: Final = 8
CODEC_SECONDS: Final = 25
# Counted from when every handler has been at work: until then a broker grows by the modules that it loads on first use.
RESIDENT_GROWTH_MAX: Final = 16 * MEGABYTE
FRAMES_OF_WARM_UP: Final = 50_000
FRAMES_PER_CLEANING: Final = 5_000
FRAMES_PER_REPORT: Final = 100_000
PARTITIONS: Final = 2


_OF_AUTHENTICATION: Final = frozenset({17, 36})
_EMPHASIS: Final = 20
_PASSWORD: Final = "fuzzers-secret"
# The plaintext listener is for those who watch. Everybody is a super user, so that requests get past the ACLs.
_SECURED: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    f'required user_{USER}="{_PASSWORD}";',
    "connection.failed.authentication.delay.ms": "0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:ANONYMOUS;User:{USER}",
}


class Role(StrEnum):
    """Who sends the frames."""

    ANYONE = "anyone"  # on a listener without authentication
    USER = "user"  # who has authenticated
    STRANGER = "stranger"  # who has not


@dataclass(slots=True)
class Tally:
    """What was sent, and what became of it."""

    spoiled: int = 0
    unspoiled: int = 0
    bursts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, burst: Burst) -> None:
        self.bursts += 1
        for frame in burst.frames:
            if frame.is_spoiled:
                self.spoiled += 1
                self.outcomes[frame.outcome.value] += 1
            else:
                self.unspoiled += 1

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(self.outcomes.items()))


class Fuzzing:
    """One run against one broker."""

    def __init__(self, broker: Broker, seed: int, connections: int, role: Role) -> None:
        self._broker = broker
        self._connections: list[FuzzedConnection | StrangersConnection]
        match role:
            case Role.ANYONE:
                self._maker = BurstMaker(seed)
                self._connections = [FuzzedConnection(broker.bootstrap_servers) for _ in range(connections)]
            case Role.USER:
                self._maker = BurstMaker(seed, without=_OF_AUTHENTICATION)
                address = _address(broker, "SASL_PLAINTEXT")
                self._connections = [FuzzedConnection(address, _PASSWORD) for _ in range(connections)]
            case Role.STRANGER:
                # Mostly what a stranger may ask: behind anything else the connection is closed.
                may_ask = [served for served in SERVED if served[0] in BEFORE_AUTHENTICATION]
                self._maker = BurstMaker(seed, served=[*may_ask * _EMPHASIS, *SERVED])
                address = _address(broker, "SASL_PLAINTEXT")
                self._connections = [StrangersConnection(address) for _ in range(connections)]
        self._administrator = WireClient(broker.bootstrap_servers)
        self._kept: set[str] = set()
        self.tally = Tally()
        self.resident_growth_max = 0
        self._warm_resident: int | None = None
        self._report_at = FRAMES_PER_REPORT

    def run(self, numbers: Iterable[int], frames: int | None, *, keep: Sequence[str]) -> None:
        """Sends bursts until `frames` spoiled frames are through or the numbers are used up."""
        self._kept = set(keep)
        self._clean()
        warm_at = min(FRAMES_OF_WARM_UP, (frames or 0) // 2)
        clean_at = FRAMES_PER_CLEANING
        for turn, number in enumerate(numbers):
            connection = self._connections[turn % len(self._connections)]
            # The broker works on the other connections' bursts while this one is made.
            connection.finish()
            burst = self._maker.make(number)
            connection.begin(burst)
            self.tally.add(burst)
            if self.tally.spoiled >= clean_at:
                clean_at += FRAMES_PER_CLEANING
                self._clean()
                if self.tally.spoiled >= warm_at:
                    self._measure()
            if frames is not None and self.tally.spoiled >= frames:
                break
        for connection in self._connections:
            connection.finish()
        self._clean()
        self._measure()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._administrator.close()

    def _measure(self) -> None:
        resident = resident_bytes(self._broker.pid)
        if self._warm_resident is None:
            self._warm_resident = resident
        growth = resident - self._warm_resident
        self.resident_growth_max = max(growth, self.resident_growth_max)
        if self.tally.spoiled >= self._report_at:
            self._report_at += FRAMES_PER_REPORT
            print(f"{self.tally.spoiled:,} frames, the broker grew by {growth / MEGABYTE:.1f} MB", flush=True)

    def _clean(self) -> None:
        """Leaves the fuzzed topics, empty, and the kept ones."""
        topics = self._administrator.ask(MetadataRequest(topics=None), 12).topics
        names = [topic.name for topic in topics if topic.name not in self._kept]
        for start in range(0, len(names), 500):
            deleted = self._administrator.ask(DeleteTopicsRequest(topic_names=names[start : start + 500]), 5)
            # Fuzzed requests that are on their way delete topics, too.
            refused = [result for result in deleted.responses if result.error_code not in (0, 3)]
            assert not refused, refused
        wanted = [
            CreatableTopic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, configs in TOPIC_CONFIGURATIONS.items()
        ]
        created = self._administrator.ask(CreateTopicsRequest(topics=wanted), 7)
        # A fuzzed request that was already on its way may have been quicker.
        assert all(result.error_code in (0, 36) for result in created.topics), created
        topics = self._administrator.ask(MetadataRequest(topics=None), 12).topics
        self._maker.topic_ids = {topic.name: topic.topic_id for topic in topics if topic.name in TOPIC_CONFIGURATIONS}


def fuzz(
    *,
    seed: int,
    frames: int | None = None,
    connections: int = CONNECTIONS,
    numbers: Iterable[int] | None = None,
    role: Role = Role.ANYONE,
) -> tuple[Fuzzing, float]:
    """A whole run with everything that must hold; the run's figures and its seconds. Raises AssertionError."""
    with Broker(config={} if role is Role.ANYONE else _SECURED) as broker:
        with Neighbour(broker.bootstrap_servers) as neighbour:
            fuzzing = Fuzzing(broker, seed, connections, role)
            started = time.monotonic()
            try:
                fuzzing.run(numbers if numbers is not None else _endless(), frames, keep=[neighbour.topic])
            except (BurstFailure, ConnectionClosed, OSError) as failure:
                raise AssertionError(f"{failure!r}; the broker printed:\n{broker.stderr_text()}") from failure
            finally:
                fuzzing.close()
            seconds = time.monotonic() - started
            neighbour.await_progress()
        assert broker.is_running(), "the broker has died"
        lines = unexpected_lines(broker)
        assert not lines, "the broker printed:\n" + "\n".join(lines)
        assert fuzzing.resident_growth_max <= RESIDENT_GROWTH_MAX, (
            f"the broker grew by {fuzzing.resident_growth_max / MEGABYTE:.1f} MB"
        )
        print(
            f"the neighbour wrote and read {neighbour.records:,} records; "
            f"its longest round took {neighbour.longest_wait_s:.2f} s"
        )
    return fuzzing, seconds


def _fuzz_codec(seconds: int) -> bool:
    """In a process of its own, which is what libFuzzer wants."""
    print(f"codec, framing and batch validation, guided by coverage, for {seconds} s", flush=True)
    command = [sys.executable, "-m", "tests.robustness.fuzz_codec", "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        print(done.stdout)
        print(f"FAILED: {' '.join(command[1:])}", file=sys.stderr)
        return False
    statistics = [line.split(":")[-1].strip() for line in done.stdout.splitlines() if "executed_units" in line]
    print(f"{int(statistics[0]):,} inputs, none of which failed" if statistics else done.stdout.strip())
    return True


def _address(broker: Broker, listener: str) -> str:
    runtime = json.loads((broker.data_dir / RUNTIME_FILE).read_text())
    return str(runtime["listeners"][listener])


def _endless() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def _replayed(text: str) -> Iterable[int]:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz_frames", description="Spoiled frames against a real broker.")
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="default: another one every time")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--as", dest="role", type=Role, choices=list(Role), default=Role.ANYONE, help="who sends them")
    parser.add_argument("--replay", metavar="N[-M]", help="only these bursts of the seed")
    parser.add_argument("--codec-seconds", type=int, default=CODEC_SECONDS, help="coverage-guided, in process; 0: none")
    options = parser.parse_args(arguments)
    if options.codec_seconds and options.replay is None and not _fuzz_codec(options.codec_seconds):
        return 1
    print(f"seed {options.seed}", flush=True)
    try:
        if options.replay is not None:
            numbers = _replayed(options.replay)
            fuzzing, seconds = fuzz(
                seed=options.seed, connections=options.connections, numbers=numbers, role=options.role
            )
        else:
            fuzzing, seconds = fuzz(
                seed=options.seed, frames=options.frames, connections=options.connections, role=options.role
            )
    except AssertionError as failure:
        print(f"FAILED with --seed {options.seed}: {failure}", file=sys.stderr)
        return 1
    tally = fuzzing.tally
    print(
        f"{tally.spoiled:,} spoiled frames, {tally.unspoiled:,} good ones between, in {tally.bursts:,} bursts over "
        f"{options.connections} connections in {seconds:.0f} s ({tally.spoiled / seconds:,.0f}/s): {tally}"
    )
    print(f"the broker grew by {fuzzing.resident_growth_max / MEGABYTE:.1f} MB at most, and printed nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
