"""The subscribed topics of a classic group's consumers: the only part of their subscriptions that the broker decodes.

Everything else in a subscription is opaque. Kafka guarantees that every version of it begins like version 0, which is
all that is read here.
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
    """The topics of all subscriptions, or None if one of them cannot be decoded."""
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
