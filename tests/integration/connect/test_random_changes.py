"""Workers come and go while connectors are created, changed, paused, restarted and deleted, at random.

Whatever the order, in the end each connector that should run does, on one worker, and REST says so.
"""

from __future__ import annotations

import random

import pytest

from penstock.connect.herder.herder import ConnectRestError
from penstock.connect.herder.worker_herder import WorkerHerder
from tests.integration.connect.workers import ConnectCluster, state_of, worker_id_of
from tests.unit.connect.herder.fakes import FakeRunner, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

NAMES = [f"connector-{number}" for number in range(10)]
STEPS = 60


@pytest.mark.parametrize("seed", [1, 2])
def test_connectors_run_once_whatever_happens(cluster: ConnectCluster, seed: int) -> None:
    chance = random.Random(seed)
    workers: list[tuple[WorkerHerder, FakeRunner]] = [cluster.worker("w0")]
    for step in range(STEPS):
        if chance.random() < 0.1 and len(workers) < 4:
            workers.append(cluster.worker(f"w{step}"))
        elif chance.random() < 0.1 and len(workers) > 1:
            cluster.stop(workers.pop(chance.randrange(len(workers)))[0])
        else:
            change(chance, chance.choice(workers)[0], chance.choice(NAMES), step)

    for herder, _runner in workers:
        herder._configs.read_to_end()
    configured = {name: workers[0][0]._view.target(name) for name in workers[0][0].connectors()}
    should_run = {name for name, target in configured.items() if target == "STARTED"}
    eventually(lambda: set.union(*(runner.running for _herder, runner in workers)) == should_run)
    assert sum(len(runner.running) for _herder, runner in workers) == len(should_run)
    expected = {"STARTED": "RUNNING", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}
    owners = cluster.owners()
    for herder, _runner in workers:
        for name, target in configured.items():
            eventually(lambda herder=herder, name=name, state=expected[target]: state_of(herder, name) == state)
            if name in owners:
                eventually(lambda herder=herder, name=name: worker_id_of(herder, name) == owners[name])
        eventually(lambda herder=herder: set(herder._view.names_with_status()) == set(configured))


def change(chance: random.Random, herder: WorkerHerder, name: str, step: int) -> None:
    config = {"connector.class": chance.choice(["Source", "Sink"]), "step": str(step), "slow.stop.s": "0.05"}
    config["tasks.max"] = str(chance.randrange(1, 4))
    try:
        match chance.randrange(8):
            case 0 | 1 | 2:
                herder.put_config(name, config)
            case 3:
                herder.create(name, config, chance.choice(["STARTED", "PAUSED", "STOPPED"]))
            case 4:
                herder.delete(name)
            case 5 | 6:
                herder.set_target_state(name, chance.choice(["STARTED", "STARTED", "PAUSED", "STOPPED"]))
            case _:
                herder.restart_connector(name, include_tasks=True, only_failed=False)
    except ConnectRestError as refusal:
        if refusal.status not in (404, 409):
            raise
