"""A broker that is told to stop hands over what it leads first: clients find another leader before it is gone.

Invariant: it ends within `limits.CONTROLLED_SHUTDOWN_S`, whatever the other brokers and the metadata store do. What the
broker still leads then is led by others once its session ends.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.core import limits
from penstock.metadata.registration import decide_shutdown, may_stop
from penstock.protocol.error_codes import BrokerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.node import Node
    from penstock.metadata.changes import Change
    from penstock.metadata.image import ClusterImage

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5


async def hand_over(node: Node, changed: asyncio.Event) -> None:
    """Returns when the broker may stop: it leads nothing that another in-sync replica could lead.

    `changed` is set with every change of the image.
    """
    try:
        async with asyncio.timeout(limits.CONTROLLED_SHUTDOWN_S):
            await _announce(node)
            while not may_stop(node.image, node.broker_id):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        led = sum(1 for _ in node.topics.led())
        logger.warning(
            "still the leader of %d partitions after %g s; stops without another leader for them",
            led,
            limits.CONTROLLED_SHUTDOWN_S,
        )


async def _announce(node: Node) -> None:
    def decide(image: ClusterImage) -> Sequence[Change]:
        return decide_shutdown(image, node.broker_id, node.broker_epoch, node.inherited_topic_config)

    while not _is_announced(node):
        decided: asyncio.Future[BrokerError | None] = node.loop.create_future()
        node.propose(decide, lambda error, decided=decided: decided.done() or decided.set_result(error))  # type: ignore[misc]
        error = await decided
        if error is not None:
            logger.warning("the shutdown of this broker cannot be announced: %s", error.message)
            await asyncio.sleep(_RETRY_S)


def _is_announced(node: Node) -> bool:
    own = node.image.brokers.get(node.broker_id)
    return own is not None and own.is_shutting_down
