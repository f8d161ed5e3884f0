"""Creating topics, for the two requests that do: CreateTopics, and Metadata when auto-creation is on.

Decisions are `metadata/topics.py`'s; this commits the good ones of a request together, so that it waits for one fsync.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.core.ids import TopicId
from penstock.metadata.image import TopicCreated, TopicImage
from penstock.metadata.topics import NewTopic, TopicDefaults, decide_creations
from penstock.protocol.error_codes import BrokerError

if TYPE_CHECKING:
    from penstock.broker.node import Node


def create_topics(
    node: Node, wanted: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, TopicImage | BrokerError]:
    """What became of each name: the new topic, or why there is none."""
    defaults = TopicDefaults(
        node.config.num_partitions, node.config.default_replication_factor, node.inherited_topic_config
    )
    decisions = decide_creations(node.image, wanted, defaults, lambda: TopicId(node.entropy.uuid()))
    changes = [decision for decision in decisions.values() if isinstance(decision, TopicCreated)]
    failure: BrokerError | None = None
    if changes and not validate_only:
        try:
            node.commit(changes)
        except BrokerError as error:
            failure = error.to_keep()
    results: dict[str, TopicImage | BrokerError] = {}
    for name, decision in decisions.items():
        if isinstance(decision, BrokerError):
            results[name] = decision
        else:
            results[name] = failure or decision.topic
    return results
