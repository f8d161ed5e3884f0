"""Which topics the members of a classic group of consumers read: the one thing we read in what they tell their leader.

Everything else that members say to each other is theirs alone. Kafka promises that every version of a subscription
begins as version 0 does, so that is all we know of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.core.errors import ProtocolError
from penstock.protocol.codec import reader
from penstock.protocol.definitions.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION_BYTES: Final = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that are named, or None if one of the subscriptions is not what it should be."""
    read = reader(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for subscription in subscriptions:
        if len(subscription) < _VERSION_BYTES:
            return None
        try:
            content, _ = read(subscription, _VERSION_BYTES, len(subscription))
        except ProtocolError:
            return None
        topics.update(content.topics)
    return frozenset(topics)
