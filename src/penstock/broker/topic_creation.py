"""Creating topics: for CreateTopics, for Metadata with auto-creation, and for the coordinators' internal topics.

`metadata/topics.py` decides. This module proposes all good decisions of a request together: they share one fsync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.core.ids import TopicId
from penstock.metadata.changes import TopicCreated, TopicImage
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import NewTopic, TopicDefaults, decide_creations
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node

CreationResults = dict[str, TopicImage | BrokerError]


def create_topics(
    node: Node,
    wanted: Sequence[NewTopic],
    on_done: Callable[[CreationResults], None],
    *,
    validate_only: bool = False,
    admit: Callable[[str, int], bool] | None = None,
) -> None:
    """Tells the outcome by name: the new topic, or the error that refused it.

    `admit` is asked for each topic that could be created, with its number of partitions; False: the client has exceeded
    its quota.
    """
    decisions: dict[str, TopicCreated | BrokerError] = {}

    def decide(image: ClusterImage) -> list[TopicCreated]:
        nonlocal decisions
        defaults = TopicDefaults(
            node.config.num_partitions, node.config.default_replication_factor, node.inherited_topic_config
        )
        decisions = decide_creations(image, wanted, defaults, lambda: TopicId(node.entropy.uuid()))
        if validate_only:
            return []
        if admit is not None:
            for name, decision in decisions.items():
                if isinstance(decision, TopicCreated) and not admit(name, len(decision.topic.partitions)):
                    decisions[name] = BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        return [decision for decision in decisions.values() if isinstance(decision, TopicCreated)]

    def decided(failure: BrokerError | None) -> None:
        if failure is not None and not decisions:
            on_done({topic.name: failure for topic in wanted})
            return
        on_done(
            {
                name: decision if isinstance(decision, BrokerError) else failure or decision.topic
                for name, decision in decisions.items()
            }
        )

    node.propose(decide, decided)
