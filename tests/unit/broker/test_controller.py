"""The controller's shell beside a store that commits at once, refuses, or lets another broker be faster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from penstock.broker import controller
from penstock.broker.controller import ControllerWatch
from penstock.broker.node import Node
from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerGone, ControllerElected
from penstock.metadata.store import Decide, OnDecided
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.metadata.clusters import INHERITED, ONE, TWO, apply, cluster, partition_of, shown, state

TURNS_MAX = 10_000


class Config:
    leader_imbalance_check_interval_seconds = 0
    auto_leader_rebalance_enable = True


class ControllingNode:
    """Broker 1, with what the controller's shell uses of a node."""

    def __init__(self, isr: str = "123", live: str = "123", leader: int = 1) -> None:
        self.loop = asyncio.get_running_loop()
        self.image = cluster(state(leader, isr), live=live)
        self.broker_id = ONE
        self.inherited_topic_config = INHERITED
        self.config = Config()
        self.proposals = 0
        self.refusals = 0
        self.watch = ControllerWatch(cast("Node", self))

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        self.loop.call_soon(self._commit, decide, on_decided)

    def _commit(self, decide: Decide, on_decided: OnDecided) -> None:
        self.proposals += 1
        if self.refusals:
            self.refusals -= 1
            on_decided(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
            return
        try:
            changes = decide(self.image)
        except BrokerError as error:
            on_decided(error)
            return
        apply(self.image, changes)
        if changes:
            self.watch.image_changed()
        on_decided(None)

    @property
    def partition(self) -> str:
        return shown(partition_of(self.image))


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(TURNS_MAX):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to pass")


def run(
    scenario: Callable[[ControllingNode], Coroutine[Any, Any, None]],
    task: Callable[[ControllerWatch], Coroutine[Any, Any, None]] = ControllerWatch.run,
    **partition: Any,
) -> None:
    async def main() -> None:
        node = ControllingNode(**partition)
        running = asyncio.create_task(task(node.watch))
        try:
            await scenario(node)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_a_broker_stands_where_there_is_no_controller_and_then_cares() -> None:
    async def scenario(node: ControllingNode) -> None:
        await until(lambda: node.partition == "1/1 isr=13 elr=")
        assert node.image.controller == ONE
        assert node.proposals == 2

    run(scenario, leader=2, live="13")


def test_changes_that_arrive_together_cause_one_look() -> None:
    async def scenario(node: ControllingNode) -> None:
        await until(lambda: node.image.controller == ONE)
        node.image.apply(BrokerGone(BrokerId(3), 3))
        node.watch.image_changed()
        node.image.apply(BrokerGone(TWO, 2))
        node.watch.image_changed()
        await until(lambda: node.partition == "1/0 isr=1 elr=")
        assert node.proposals == 2

    run(scenario)


def test_another_controller_is_left_to_its_work_until_it_is_gone() -> None:
    async def scenario(node: ControllingNode) -> None:
        node.image.apply(ControllerElected(TWO, 1))
        node.image.apply(BrokerGone(BrokerId(3), 3))
        node.watch.image_changed()
        for _ in range(10):
            await asyncio.sleep(0)
        assert (node.proposals, node.partition) == (0, "1/0 isr=123 elr=")
        node.image.apply(BrokerGone(TWO, 2))
        node.watch.image_changed()
        await until(lambda: node.partition == "1/0 isr=1 elr=")
        assert (node.image.controller, node.image.controller_epoch) == (ONE, 2)

    run(scenario)


def test_what_could_not_be_committed_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_RETRY_S", 0)

    async def scenario(node: ControllingNode) -> None:
        node.refusals = 3
        await until(lambda: node.partition == "1/1 isr=13 elr=")
        assert node.proposals == 5

    run(scenario, leader=2, live="13")


def test_the_lead_returns_to_the_preferred_replica() -> None:
    async def scenario(node: ControllingNode) -> None:
        node.image.apply(ControllerElected(ONE, 1))
        await until(lambda: node.partition == "1/1 isr=123 elr=")

    run(scenario, ControllerWatch.balance, leader=2)


@pytest.mark.parametrize(("enabled", "elected"), [(False, ONE), (True, TWO)])
def test_leaders_are_balanced_by_the_controller_and_where_that_is_enabled(enabled: bool, elected: BrokerId) -> None:
    async def scenario(node: ControllingNode) -> None:
        node.config.auto_leader_rebalance_enable = enabled
        node.image.apply(ControllerElected(elected, 1))
        for _ in range(10):
            await asyncio.sleep(0)
        assert (node.proposals, node.partition) == (0, "2/0 isr=123 elr=")

    run(scenario, ControllerWatch.balance, leader=2)
