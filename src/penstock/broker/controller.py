"""This broker as the cluster's controller: it looks at the image after every change, and proposes what is due.

`metadata/controller.py` decides. A broker stands for election whenever there is no controller; while another one has
the office, nothing is done here. Changes that arrive together cause one look.

Must not know: how a controller is elected or loses its office (the store frees it when a session ends).

Invariant: each task has one proposal under way at a time. It is decided on the newest image, by the controller of that
image.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.core.ids import NO_LEADER
from penstock.metadata.controller import Controller, decide_candidacy
from penstock.metadata.elections import decide_balance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.node import Node
    from penstock.metadata.changes import Change
    from penstock.metadata.image import ClusterImage
    from penstock.metadata.store import Decide
    from penstock.protocol.error_codes import BrokerError

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
# As Kafka's controller: clients of a thousand partitions ask for their leaders again at once.
_ELECTIONS_PER_BALANCE_MAX: Final = 1000


class ControllerWatch:
    """Belongs to the event loop; `run` and `balance` are tasks of the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._controller = Controller()
        self._image_changed = asyncio.Event()
        self._image_changed.set()

    def image_changed(self) -> None:
        self._image_changed.set()

    async def run(self) -> None:
        while True:
            await self._image_changed.wait()
            self._image_changed.clear()
            decide = self._due()
            if decide is None:
                continue
            failure = await self._proposed(decide)
            if failure is not None:
                # Another broker was faster, or the store is away; what is still due is found in the next look.
                logger.debug("a decision of the controller was not committed: %s", failure.message)
                await asyncio.sleep(_RETRY_S)
                self._image_changed.set()

    async def balance(self) -> None:
        """Gives the lead back to preferred replicas from time to time: a broker that was away leads nothing."""
        node = self._node
        while True:
            await asyncio.sleep(node.config.leader_imbalance_check_interval_seconds)
            if node.config.auto_leader_rebalance_enable and node.image.controller == node.broker_id:
                failure = await self._proposed(self._balance)
                if failure is not None:
                    logger.debug("leaders were not balanced: %s", failure.message)

    def _balance(self, image: ClusterImage) -> Sequence[Change]:
        node = self._node
        return decide_balance(
            image, node.broker_id, node.inherited_topic_config, partitions_max=_ELECTIONS_PER_BALANCE_MAX
        )

    def _due(self) -> Decide | None:
        node = self._node
        image, broker_id = node.image, node.broker_id
        if image.controller == NO_LEADER:
            return (lambda image: decide_candidacy(image, broker_id)) if decide_candidacy(image, broker_id) else None
        if image.controller != broker_id or not self._controller.decide(image, broker_id, node.inherited_topic_config):
            return None
        return lambda image: self._controller.decide(image, broker_id, node.inherited_topic_config)

    async def _proposed(self, decide: Decide) -> BrokerError | None:
        decided: asyncio.Future[BrokerError | None] = self._node.loop.create_future()

        def on_decided(failure: BrokerError | None) -> None:
            if not decided.done():
                decided.set_result(failure)

        self._node.propose(decide, on_decided)
        return await decided
