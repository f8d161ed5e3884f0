"""How a broker registers in its cluster, at its start and after a lost session.

The decision is `metadata/registration.py`'s. It takes more than one proposal where the broker's last run ended
uncleanly and many partitions relied on its replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.metadata.changes import BrokerImage, Change
from penstock.metadata.image import ClusterImage
from penstock.metadata.registration import decide_registration, is_registered
from penstock.metadata.store import OnDecided
from penstock.protocol.error_codes import BrokerError

if TYPE_CHECKING:
    from penstock.broker.node import Node


def register_in_cluster(node: Node, broker: BrokerImage, on_decided: OnDecided) -> None:
    """Proposes until the broker is registered, or refused."""

    def decide(image: ClusterImage) -> Sequence[Change]:
        return decide_registration(image, broker, node.log_directory.clean_shutdown_epoch, node.inherited_topic_config)

    def decided(error: BrokerError | None) -> None:
        if error is None and not is_registered(node.image, broker.broker_id, broker.incarnation):
            node.propose(decide, decided)
        else:
            on_decided(error)

    node.propose(decide, decided)
