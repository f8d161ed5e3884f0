"""Resolves the subscriptions of a group's members, names and patterns, against the cluster's topics.

Owns: compiled patterns, the resolved topics of each distinct subscription until topics change, and their hash.
Must never know: epochs and assignments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from penstock.coordinator.consumer_group_changes import MemberMetadata
from penstock.coordinator.topic_partitions import Topic, TopicCatalogue
from penstock.coordinator.topic_pattern import TopicPattern
from penstock.protocol.error_codes import BrokerError

_Subscription: TypeAlias = tuple[tuple[str, ...], str | None]


@dataclass(frozen=True, slots=True)
class ResolvedSubscription:
    topics: frozenset[Topic]
    topic_ids: frozenset[bytes]


class Subscriptions:
    def __init__(self, catalogue: TopicCatalogue) -> None:
        self._catalogue = catalogue
        self._patterns: dict[str, TopicPattern] = {}
        self._resolved: dict[_Subscription, ResolvedSubscription] = {}

    def replace_catalogue(self, catalogue: TopicCatalogue) -> None:
        self._catalogue = catalogue
        self._resolved.clear()

    def check_pattern(self, text: str) -> None:
        """Raises BrokerError(INVALID_REGULAR_EXPRESSION)."""
        if text not in self._patterns:
            self._patterns[text] = TopicPattern(text)

    def drop_unused(self, members: Iterable[MemberMetadata]) -> None:
        used = {_subscription_of(member) for member in members}
        self._resolved = {key: resolved for key, resolved in self._resolved.items() if key in used}
        used_patterns = {pattern for _, pattern in used}
        self._patterns = {text: pattern for text, pattern in self._patterns.items() if text in used_patterns}

    def resolve(self, member: MemberMetadata) -> ResolvedSubscription:
        """The existing topics that a member subscribes to. As in Kafka, patterns match internal topics too."""
        key = _subscription_of(member)
        if key not in self._resolved:
            names = set(member.subscribed_topic_names)
            if member.subscribed_topic_regex:
                names.update(self._matching(member.subscribed_topic_regex))
            topics = frozenset(self._catalogue[name] for name in names if name in self._catalogue)
            self._resolved[key] = ResolvedSubscription(topics, frozenset(topic.topic_id for topic in topics))
        return self._resolved[key]

    def subscribed_topics(self, members: Iterable[MemberMetadata]) -> set[Topic]:
        one_of_each = {_subscription_of(member): member for member in members}
        return set().union(*(self.resolve(member).topics for member in one_of_each.values()))

    def include(self, topic_name: str, members: Iterable[MemberMetadata]) -> bool:
        """Whether any member subscribes to a topic of this name, existing or not."""
        members = list(members)
        return any(topic_name in member.subscribed_topic_names for member in members) or any(
            topic.name == topic_name for topic in self.subscribed_topics(members)
        )

    def metadata_hash(self, members: Iterable[MemberMetadata]) -> int:
        """A signed 64-bit hash of the subscribed topics. The assignment stays valid while it is the same."""
        topics = self.subscribed_topics(members)
        if not topics:
            return 0
        digest = blake2b(digest_size=8)
        for topic in sorted(topics, key=lambda topic: topic.name):
            digest.update(topic.topic_id + topic.partition_count.to_bytes(4, "big") + topic.name.encode() + b"\0")
        return int.from_bytes(digest.digest(), "big", signed=True)

    def topic_names(self) -> dict[bytes, str]:
        return {topic.topic_id: topic.name for topic in self._catalogue.values()}

    def _matching(self, text: str) -> list[str]:
        try:
            self.check_pattern(text)
        except BrokerError:
            return []  # another implementation accepted this pattern; it must not affect the other members
        pattern = self._patterns[text]
        return [name for name in self._catalogue if pattern.matches(name)]


def _subscription_of(member: MemberMetadata) -> _Subscription:
    return member.subscribed_topic_names, member.subscribed_topic_regex
