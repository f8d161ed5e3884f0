"""Workers that are killed, frozen or cut off: their connectors run elsewhere, and never twice at the same time.

A run of the fake runner holds a lock that belongs to its process, so a second run of a connector finds it taken. A
killed process loses its locks, as it loses its effects.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.integration.connect.workers import BROKER_CONFIG, ConnectCluster, WorkerProcess, state_of, worker_id_of
from tests.unit.connect.herder.fakes import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SESSION_TIMEOUT_MS = 3000
SINK = {"connector.class": "Sink", "tasks.max": "1"}


@pytest.fixture
def cluster(broker: Broker, tmp_path: Path) -> Iterator[ConnectCluster]:
    with ConnectCluster(
        broker.bootstrap_servers, tmp_path, session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_ms=200
    ) as cluster:
        yield cluster
        assert "TWICE" not in {what for _time, what, _name, _worker in cluster.runs()}


def test_workers_are_killed_in_turn_and_each_connector_has_one_owner(cluster: ConnectCluster) -> None:
    names = {f"connector-{number}" for number in range(30)}
    dead: set[str] = set()
    with ExitStack() as stack:
        workers = [stack.enter_context(WorkerProcess(cluster, f"w{number}")) for number in range(3)]
        for name in names:
            workers[0].create(name)

        def all_run_on(count: int) -> bool:
            owners = cluster.owners(frozenset(dead))
            return set(owners) == names and len(set(owners.values())) == count

        eventually(lambda: all_run_on(3), 60, pause_s=0.1)
        for number in range(3, 6):
            victim = workers.pop(0)
            killed_at = time.monotonic()
            victim.kill()
            dead.add(victim.worker_id)
            eventually(lambda: all_run_on(2), 60, pause_s=0.1)
            moved_s = time.monotonic() - killed_at
            assert moved_s < SESSION_TIMEOUT_MS / 1000 + 5, "a session timeout, and a rebalance"
            workers.append(stack.enter_context(WorkerProcess(cluster, f"w{number}")))
            eventually(lambda: all_run_on(3), 60, pause_s=0.1)
    starts = Counter(name for _time, what, name, _worker in cluster.runs() if what == "start")
    assert set(starts) == names


def test_a_worker_that_was_frozen_finds_that_it_was_expelled(cluster: ConnectCluster) -> None:
    """It cannot stop anything while it is frozen. Its effects are fenced; afterwards it stops what is no longer its."""
    with WorkerProcess(cluster, "frozen") as frozen:
        frozen.create("src")
        eventually(lambda: cluster.owners() == {"src": "frozen"}, 60)
        frozen.pause()
        # The lock of the frozen run is still held: the new owner notes it, which is what fencing is for.
        herder, runner = cluster.worker("alive")
        eventually(lambda: runner.fenced == [("src", 1)], 60)
        frozen.resume()
        eventually(lambda: ("end", "src", "frozen") in {run[1:] for run in cluster.runs()}, 60)
        eventually(lambda: worker_id_of(herder, "src") == "alive" and state_of(herder, "src") == "FAILED", 60)
        # The lock was taken, so the fake runner failed; a person restarts it.
        herder.restart_connector("src", include_tasks=True, only_failed=True)
        eventually(lambda: runner.running or cluster.owners(), 60)
    log = cluster.directory / "runs.log"
    assert [run[1:] for run in cluster.runs() if run[1] == "TWICE"] == [("TWICE", "src", "alive")]
    log.write_text(log.read_text().replace("TWICE", "fenced"))


def test_a_worker_that_is_cut_off_stops_before_its_session_ends(tmp_path: Path) -> None:
    """By its own clock: it hears nothing from the broker, which is away longer than the session lasts."""
    with (
        Broker(config=BROKER_CONFIG) as broker,
        ConnectCluster(
            broker.bootstrap_servers, tmp_path, session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_ms=200
        ) as cluster,
    ):
        herder, runner = cluster.worker("a")
        herder.create("snk", SINK)
        eventually(lambda: runner.running == {"snk"})
        eventually(lambda: state_of(herder, "snk") == "RUNNING")
        broker.kill()
        cut_off_at = time.monotonic()
        eventually(lambda: not runner.running)
        assert time.monotonic() - cut_off_at < SESSION_TIMEOUT_MS / 1000
        assert herder.connectors() == ["snk"], "it answers from what it has read"
        eventually(lambda: herder.health()[1] == "unhealthy")
        broker.start()
        eventually(lambda: runner.running == {"snk"}, 60)
        eventually(lambda: state_of(herder, "snk") == "RUNNING", 60)
        eventually(lambda: herder.health()[1] == "healthy", 60)
        herder.set_target_state("snk", "PAUSED")
        eventually(lambda: state_of(herder, "snk") == "PAUSED")
        assert "TWICE" not in {what for _time, what, _name, _worker in cluster.runs()}
