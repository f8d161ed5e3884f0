"""Soak: sessions of brokers with a short lease, while etcd is restarted and processes are paused.

    python -m tests.cluster.lease_soak [--seconds 180] [--seed N] [--members 1]

Each of three worker processes keeps a registration in a real etcd and notes, every few milliseconds, that it acts on
its own, for as long as its store lets it. All of them share the machine's monotonic clock, so that this process can
compare what it saw of etcd with what the workers noted. It checks:

- No session is trusted too long: no worker acted after its registration was seen to be deleted.
- No session is lost without a reason: a registration ends only where its worker was paused, or etcd was away, for
  longer than a session may last. Restarts of etcd that are shorter cost no session.
- Every worker acts again in the end, and thousands of refreshes are behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.broker.etcd.broker_directory import BrokerDirectory
from penstock.broker.etcd.gateway import EtcdGateway
from penstock.broker.etcd.http_connection import Member
from penstock.broker.etcd.start import ClusterSettings, open_metadata_store
from penstock.broker.system import SystemClock, SystemEntropy
from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerImage, BrokerRegistered, Endpoint
from penstock.metadata.cluster_log import ClusterKeys, decode_registration
from penstock.metadata.key_value_store import NO_REVISION, Revision, StoreUnavailable
from penstock.protocol.error_codes import BrokerError
from penstock.testing.etcd import Etcd

_PREFIX: Final = "/soak/"
_TTL_MS: Final = 2000
_HEARTBEAT_MS: Final = 250
_TRUSTED_MS: Final = _TTL_MS - _TTL_MS // 6
_ACT_S: Final = 0.005
_SLOT: Final = struct.Struct("<qqqq")  # registration's epoch, first act, last act, acts
_SLOTS: Final = 4096
_WORKERS: Final = 3


# A worker


async def work(ports: list[int], broker_id: int, directory: Path) -> None:
    store = await open_metadata_store(
        EtcdGateway(
            [Member("127.0.0.1", port) for port in ports], call_timeout_s=1.0, keep_alive_timeout_s=_TTL_MS / 6000
        ),
        ClusterSettings(_PREFIX, BrokerId(broker_id), _TTL_MS, _HEARTBEAT_MS, 30_000),
        BrokerDirectory(directory, broker_id),
        clock=SystemClock(),
        entropy=SystemEntropy(),
        on_fatal=sys.exit,
    )
    store.subscribe(lambda committed: None)
    registered: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
    endpoints = {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}
    store.propose(
        lambda image: [
            BrokerRegistered(BrokerImage(BrokerId(broker_id), endpoints, None, image.last_broker_epoch + 1, b"w"))
        ],
        registered.set_result,
    )
    assert await registered is None
    await _act(store, broker_id, directory)


async def _act(store: object, broker_id: int, directory: Path) -> None:
    with (directory / "acts").open("r+b") as file, mmap.mmap(file.fileno(), _SLOTS * _SLOT.size) as acts:
        slot, epoch, first, count = -1, -1, 0, 0
        while True:
            # One reading of the clock decides and is noted: a pause in between moves neither.
            now_ns = time.monotonic_ns()
            if now_ns // 1_000_000 < store.lease_deadline_ms:  # type: ignore[attr-defined]
                own = store.image.brokers.get(BrokerId(broker_id))  # type: ignore[attr-defined]
                if own is not None:
                    if own.epoch != epoch:
                        slot, epoch, first, count = slot + 1, own.epoch, now_ns, 0
                    count += 1
                    _SLOT.pack_into(acts, slot * _SLOT.size, epoch, first, now_ns, count)
            await asyncio.sleep(_ACT_S)


# What is seen of them


@dataclass
class Seen:
    """By broker and epoch: when its registration was seen, and when it was seen to be gone, in nanoseconds."""

    registered: dict[tuple[int, int], int] = field(default_factory=dict)
    deleted: dict[tuple[int, int], int] = field(default_factory=dict)
    current: dict[int, int] = field(default_factory=dict)

    async def watch(self, ports: list[int]) -> None:
        gateway, keys = EtcdGateway([Member("127.0.0.1", port) for port in ports]), ClusterKeys(_PREFIX)
        after: Revision = NO_REVISION
        while True:
            try:
                async for watched in gateway.watch(keys.brokers, after=after):
                    after = watched.revision
                    for change in watched.changes:
                        broker_id = keys.broker_id(change.key)
                        assert broker_id is not None
                        self._note(broker_id, change.key, change.value)
            except StoreUnavailable:
                await asyncio.sleep(0.02)

    def _note(self, broker_id: int, key: str, value: bytes | None) -> None:
        now_ns = time.monotonic_ns()
        if value is None:
            self.deleted[broker_id, self.current.pop(broker_id)] = now_ns
        else:
            if broker_id in self.current:  # replaced by the next registration before its lease was over
                self.deleted[broker_id, self.current[broker_id]] = now_ns
            self.current[broker_id] = decode_registration(key, value)
            self.registered[broker_id, self.current[broker_id]] = now_ns


@dataclass
class Faults:
    """What was done to whom: times in nanoseconds, from and until."""

    paused: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    away: list[tuple[int, int]] = field(default_factory=list)
    restarts: int = 0

    def explain(self, broker_id: int, deleted_ns: int) -> bool:
        """Whether one of them that lasts long enough ended shortly before, or still ran."""
        return any(
            begun < deleted_ns
            and deleted_ns - ended < 3 * _TTL_MS * 1_000_000
            and ended - begun > _TRUSTED_MS * 900_000
            for begun, ended in (*self.paused.get(broker_id, ()), *self.away)
        )


async def disturb(etcd: Etcd, workers: dict[int, int], faults: Faults, chance: random.Random, end_s: float) -> None:
    while time.monotonic() < end_s:
        await asyncio.sleep(chance.uniform(0.5, 6))
        begun = time.monotonic_ns()
        length_s = chance.choice((0.05, 0.3, 0.8, 1.2, 2.5, 5))
        match chance.randrange(4):
            case 0 | 1:
                broker_id, pid = chance.choice(list(workers.items()))
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(length_s)
                os.kill(pid, signal.SIGCONT)
                faults.paused.setdefault(broker_id, []).append((begun, time.monotonic_ns()))
            case 2:
                member = chance.choice(etcd.members)
                (etcd.kill if chance.random() < 0.5 else etcd.stop)(member)
                await asyncio.sleep(length_s / 2)
                await asyncio.to_thread(etcd.start, member)
                faults.restarts += 1
                faults.away.append((begun, time.monotonic_ns()))
            case 3:
                member = chance.choice(etcd.members)
                etcd.pause(member)
                await asyncio.sleep(length_s)
                etcd.resume(member)
                faults.away.append((begun, time.monotonic_ns()))


# The verdict


def check(directories: dict[int, Path], seen: Seen, faults: Faults) -> list[str]:
    problems: list[str] = []
    sessions = acts_in_all = 0
    margins: list[float] = []
    for broker_id, directory in directories.items():
        content = (directory / "acts").read_bytes()
        for slot in range(_SLOTS):
            epoch, _, last_ns, count = _SLOT.unpack_from(content, slot * _SLOT.size)
            if not count:
                break
            sessions += 1
            acts_in_all += count
            deleted_ns = seen.deleted.get((broker_id, epoch))
            if deleted_ns is None:
                continue
            margins.append((deleted_ns - last_ns) / 1e6)
            if last_ns > deleted_ns:
                problems.append(
                    f"broker {broker_id} acted {(last_ns - deleted_ns) / 1e6:.1f} ms after the end of session {epoch}"
                )
            if not faults.explain(broker_id, deleted_ns):
                problems.append(f"broker {broker_id} lost its session {epoch} without a reason")
    for broker_id in directories:
        if broker_id not in seen.current:
            problems.append(f"broker {broker_id} is not registered in the end")
    print(
        f"{sessions} sessions, {len(seen.deleted)} ended; {acts_in_all} acts; "
        f"{sum(map(len, faults.paused.values()))} pauses, {faults.restarts} restarts of etcd, "
        f"{len(faults.away)} times without it; the closest act was {min(margins, default=float('nan')):.0f} ms before "
        "the end of its session was seen"
    )
    return problems


def start_worker(ports: list[int], broker_id: int, directory: Path) -> subprocess.Popen[bytes]:
    directory.mkdir()
    (directory / "acts").write_bytes(bytes(_SLOTS * _SLOT.size))
    arguments = [json.dumps(ports), str(broker_id), str(directory)]
    return subprocess.Popen([sys.executable, "-m", "tests.cluster.lease_soak", "--worker", *arguments])


async def soak(seconds: float, seed: int, members: int) -> int:
    chance, seen, faults = random.Random(seed), Seen(), Faults()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lease-soak-")))
        etcd = stack.enter_context(Etcd(members=members))
        directories = {number: root / str(number) for number in range(1, _WORKERS + 1)}
        watching = asyncio.ensure_future(seen.watch(etcd.ports))
        workers: dict[int, int] = {}
        for broker_id, directory in directories.items():
            process = start_worker(etcd.ports, broker_id, directory)
            stack.callback(process.wait)
            stack.callback(process.kill)
            workers[broker_id] = process.pid
        await asyncio.sleep(3)
        await disturb(etcd, workers, faults, chance, time.monotonic() + seconds)
        await asyncio.sleep(4 * _TTL_MS / 1000)
        watching.cancel()
        problems = check(directories, seen, faults)
    for problem in problems:
        print(problem)
    print("failed" if problems else "passed", f"(seed {seed})")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--worker", nargs=3)
    options = parser.parse_args()
    if options.worker:
        ports, broker_id, directory = options.worker
        asyncio.run(work(json.loads(ports), int(broker_id), Path(directory)))
        return 0
    return asyncio.run(soak(options.seconds, options.seed, options.members))


if __name__ == "__main__":
    sys.exit(main())
