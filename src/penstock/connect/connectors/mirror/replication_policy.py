"""Names of topics on the target cluster, as MirrorMaker 2's replication policies give them.

Owns the two policies of MirrorMaker 2, by their Java names, and which topics are internal or would run in a circle. It
must not know which topics a person wants to replicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HEARTBEATS: Final = "heartbeats"
_PACKAGE: Final = "org.apache.kafka.connect.mirror."


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """`alias.topic`. Topics may come over several clusters: `b.a.topic`."""

    source_alias: str
    separator: str = "."
    uses_separator_for_internal_topics: bool = True

    def remote_topic(self, alias: str, topic: str) -> str:
        return f"{alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that a remote topic comes from; None for a topic that was created here."""
        parts = topic.split(self.separator)
        while parts and not parts[-1]:  # as Java splits
            parts.pop()
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Its name on that cluster."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Its name on the cluster where it was created."""
        upstream = self.upstream_topic(topic)
        return topic if upstream is None or upstream == topic else self.original_topic(upstream)

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether records of this topic have been on the target cluster before."""
        source, upstream = self.topic_source(topic), self.upstream_topic(topic)
        if source is None or upstream is None:
            return False
        return source == target_alias or (upstream != topic and self.is_cycle(upstream, target_alias))

    # Topics of the mirror itself

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.uses_separator_for_internal_topics else "."

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs{self._internal_separator}{alias}{self._internal_separator}internal"

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self._checkpoints_suffix}"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_separator}checkpoints{self._internal_separator}internal"

    def is_internal_topic(self, topic: str) -> bool:
        """Of Kafka or of a mirror: never replicated."""
        own = topic.startswith("mm2") and topic.endswith(f"{self._internal_separator}internal")
        return topic.startswith(("__", ".")) or own or topic.endswith(self._checkpoints_suffix)


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Names stay as they are, but those of heartbeats. Circles cannot be found: mirror in one direction only."""

    def remote_topic(self, alias: str, topic: str) -> str:
        return f"{alias}{self.separator}{topic}" if _looks_like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.topic_source(self, topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return DefaultReplicationPolicy.upstream_topic(self, topic) if _looks_like_heartbeats(topic) else topic


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)


POLICIES: Final[Mapping[str, type[DefaultReplicationPolicy]]] = {
    f"{_PACKAGE}DefaultReplicationPolicy": DefaultReplicationPolicy,
    f"{_PACKAGE}IdentityReplicationPolicy": IdentityReplicationPolicy,
}
