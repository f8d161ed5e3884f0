"""The admin client: describes and changes topics and consumer groups of any Kafka cluster.

A typed wrapper around confluent-kafka's AdminClient. Owns the timeouts (`timeout_s` bounds every call) and the
translation of responses and errors into plain values. It must never know how results are displayed.

Invariant: describing a topic never creates it, whatever `auto.create.topics.enable` is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from penstock.client.assignment import native
from penstock.client.commit_metadata import metadata_of
from penstock.client.errors import from_kafka_error
from penstock.client.groups import GroupDescription, GroupListing, GroupMember, PartitionProgress, progress_of
from penstock.client.settings import admin_settings
from penstock.core.errors import (
    AccessDenied,
    BrokerUnreachable,
    ClientError,
    CommitRefused,
    CoordinatorLoading,
    GroupNotEmpty,
    UnknownGroup,
    UnknownTopic,
)
from penstock.core.ids import OffsetAndMetadata, TopicPartition, uuid_text

if TYPE_CHECKING:
    from concurrent.futures import Future

DEFAULT_TIMEOUT_S: Final = 15.0
_LOADING_PAUSE_S: Final = 0.1
_WARNING: Final = 4  # as syslog counts
_WITHOUT_EFFECT: Final = "penstock.topic.configs.without.effect"  # see metadata/broker_config_definitions.py

Answer = TypeVar("Answer")
IsolationLevel = Literal["read_uncommitted", "read_committed"]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    overrides: Mapping[str, str]
    """The settings of the topic itself, without those that it inherits from the broker."""

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


class Admin:
    """`config` uses Kafka's setting names; `bootstrap.servers` is required."""

    def __init__(self, config: Mapping[str, Any], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._connect(admin_settings(config).librdkafka, timeout_s)

    @classmethod
    def from_librdkafka(cls, config: Mapping[str, Any], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Self:
        """Takes librdkafka's setting names, and leaves their validation to librdkafka."""
        admin = cls.__new__(cls)
        admin._connect(config, timeout_s)
        return admin

    def _connect(self, config: Mapping[str, Any], timeout_s: float) -> None:
        from confluent_kafka import KafkaError, KafkaException, admin

        # The binding re-exports names without declaring them, so a type checker considers them private.
        self._api: Any = admin
        self._timeout_s = timeout_s
        self._kafka_exception = KafkaException
        # librdkafka goes on trying if a broker refuses its credentials; a call then fails because none answers.
        self._denials = denials = deque[str](maxlen=1)
        given = config.get("error_cb")

        def on_error(error: KafkaError) -> None:
            if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
                denials.append(" ".join(error.str().split()))
            if given is not None:
                given(error)

        # Failures are raised as exceptions; librdkafka's own log lines would only repeat them.
        quiet = {"log_level": _WARNING, **config, "error_cb": on_error}
        self._client: Any = self._translated("the client's configuration", lambda: self._api.AdminClient(quiet))

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted."""
        metadata = self._translated("listing topics", lambda: self._client.list_topics(timeout=self._timeout_s))
        return sorted(metadata.topics)

    def describe_topic(self, name: str) -> TopicDescription:
        from confluent_kafka import TopicCollection

        request = TopicCollection([name])
        futures = self._translated(f"topic '{name}'", lambda: self._client.describe_topics(request, **self._bounded()))
        found = self._answer(f"topic '{name}'", futures[name])
        return TopicDescription(
            name=found.name,
            topic_id=_kafka_id(found.topic_id),
            internal=found.is_internal,
            partitions=tuple(
                PartitionDescription(
                    partition=partition.id,
                    leader=partition.leader.id if partition.leader is not None else None,
                    replicas=tuple(node.id for node in partition.replicas),
                    in_sync_replicas=tuple(node.id for node in partition.isr),
                )
                for partition in sorted(found.partitions, key=lambda partition: int(partition.id))
            ),
            overrides=self._overrides(name),
        )

    def _overrides(self, name: str) -> dict[str, str]:
        resource = self._api.ConfigResource(self._api.ConfigResource.Type.TOPIC, name)
        futures = self._translated(
            f"topic '{name}'", lambda: self._client.describe_configs([resource], **self._bounded())
        )
        entries = self._answer(f"topic '{name}'", futures[resource])
        own = self._api.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {key: str(entry.value) for key, entry in sorted(entries.items()) if entry.source == own}

    def settings_without_effect(self) -> frozenset[str]:
        """The topic settings that the broker stores without effect; none on Apache Kafka."""
        cluster = self._translated("the cluster", lambda: self._client.list_topics(timeout=self._timeout_s))
        resource = self._api.ConfigResource(self._api.ConfigResource.Type.BROKER, str(min(cluster.brokers)))
        futures = self._translated(
            "the broker's settings", lambda: self._client.describe_configs([resource], **self._bounded())
        )
        entry = self._answer("the broker's settings", futures[resource]).get(_WITHOUT_EFFECT)
        return frozenset() if entry is None else frozenset(str(entry.value).split(","))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Arguments that are left out take the broker's default (KIP-464)."""

        def create() -> Mapping[str, Future[None]]:
            topic = self._api.NewTopic(
                name,
                num_partitions=-1 if partitions is None else partitions,
                replication_factor=-1 if replication_factor is None else replication_factor,
                config=dict(config or {}),
            )
            futures: Mapping[str, Future[None]] = self._client.create_topics([topic], **self._bounded())
            return futures

        self._answer(f"topic '{name}'", self._translated(f"topic '{name}'", create)[name])

    def delete_topic(self, name: str) -> None:
        futures = self._translated(f"topic '{name}'", lambda: self._client.delete_topics([name], **self._bounded()))
        self._answer(f"topic '{name}'", futures[name])

    def set_partition_count(self, name: str, partitions: int) -> None:
        """Partitions can only be added; the broker rejects a smaller number."""
        request = self._api.NewPartitions(name, partitions)
        futures = self._translated(
            f"topic '{name}'", lambda: self._client.create_partitions([request], **self._bounded())
        )
        self._answer(f"topic '{name}'", futures[name])

    def alter_topic_config(self, name: str, *, changes: Mapping[str, str], removals: Iterable[str] = ()) -> None:
        """Settings that are not listed keep their values (KIP-339)."""
        entries = [
            self._api.ConfigEntry(key, value, incremental_operation=self._api.AlterConfigOpType.SET)
            for key, value in changes.items()
        ]
        entries += [
            self._api.ConfigEntry(key, None, incremental_operation=self._api.AlterConfigOpType.DELETE)
            for key in removals
        ]
        resource = self._api.ConfigResource(self._api.ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        futures = self._translated(
            f"topic '{name}'", lambda: self._client.incremental_alter_configs([resource], **self._bounded())
        )
        self._answer(f"topic '{name}'", futures[resource])

    def require_topic(self, name: str) -> None:
        """Raises UnknownTopic, with the most similar existing name, unless the topic exists."""
        names = self.list_topics()
        if name not in names:
            raise unknown_topic(name, names)

    def list_groups(self) -> list[GroupListing]:
        """All groups that have members or committed offsets, sorted by name."""

        def listed() -> Any:
            answer = self._answer("listing groups", self._client.list_consumer_groups(**self._bounded()))
            for failure in answer.errors:
                raise from_kafka_error(failure, "listing groups")
            return answer.valid

        groups = (
            GroupListing(each.group_id, _kafka_name(each.state), _kafka_name(each.type).lower())
            for each in self._when_loaded("listing groups", listed)
        )
        return sorted(groups, key=lambda group: group.name)

    def describe_group(self, name: str) -> GroupDescription:
        """Raises UnknownGroup for a group that has neither members nor committed offsets."""
        subject = f"group '{name}'"
        found = self._of_group(name, lambda: self._client.describe_consumer_groups([name], **self._bounded()))
        if _kafka_name(found.state) == "Dead":
            raise UnknownGroup(f"{subject} does not exist")
        members = (
            GroupMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.host,
                partitions=tuple(
                    sorted(TopicPartition(each.topic, each.partition) for each in member.assignment.topic_partitions)
                ),
            )
            for member in found.members
        )
        return GroupDescription(
            name=found.group_id,
            state=_kafka_name(found.state),
            protocol=_kafka_name(found.type).lower(),
            assignor=found.partition_assignor,
            coordinator="" if found.coordinator is None else f"{found.coordinator.host}:{found.coordinator.port}",
            members=tuple(sorted(members, key=lambda member: member.member_id)),
        )

    def group_offsets(self, name: str) -> dict[TopicPartition, int]:
        """The committed offsets of the group."""
        return {partition: committed.offset for partition, committed in self.group_commits(name).items()}

    def group_commits(self, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of the group, each with the metadata of its commit."""
        request = self._api._ConsumerGroupTopicPartitions(name)
        found = self._of_group(name, lambda: self._client.list_consumer_group_offsets([request], **self._bounded()))
        return {
            TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.offset, metadata_of(each))
            for each in found.topic_partitions
            if each.offset >= 0
        }

    def group_progress(self, group: GroupDescription) -> list[PartitionProgress]:
        """Committed offset, end offset and owner of every partition that the group has committed or is assigned."""
        committed = self.group_offsets(group.name)
        partitions = {*committed, *(each for member in group.members for each in member.partitions)}
        return progress_of(group, committed, self.offsets(partitions, "latest"))

    def set_group_offsets(
        self, name: str, offsets: Mapping[TopicPartition, int], *, metadata: str | None = None
    ) -> None:
        """Raises GroupNotEmpty while the group has active members."""
        subject = f"group '{name}'"
        request = self._api._ConsumerGroupTopicPartitions(name, native(offsets, metadata))
        try:
            altered = self._of_group(
                name, lambda: self._client.alter_consumer_group_offsets([request], **self._bounded())
            )
            for each in altered.topic_partitions:
                if each.error is not None:
                    raise from_kafka_error(each.error, f"{subject}, {TopicPartition(each.topic, each.partition)}")
        except CommitRefused as refusal:
            # The coordinator accepts commits from non-members only while the group is empty.
            raise GroupNotEmpty(f"{subject} has active members; stop them first") from refusal

    def delete_group(self, name: str) -> None:
        self._of_group(name, lambda: self._client.delete_consumer_groups([name], **self._bounded()))

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: Literal["earliest", "latest"] | int,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, int]:
        """The earliest offset, the end offset, or the offset of the first record at or after a timestamp (in ms).

        Under `read_committed` the end is the last stable offset. A timestamp after the last record gives the end
        offset. Partitions that do not exist are left out.
        """
        asked = list(partitions)
        if not asked:
            return {}
        spec = self._api.OffsetSpec
        wanted = spec.for_timestamp(at) if isinstance(at, int) else getattr(spec, at)()
        request = dict.fromkeys(native(asked), wanted)
        options = self._bounded()
        if isolation_level == "read_committed":
            options["isolation_level"] = _read_committed()
        futures = self._translated("offsets", lambda: self._client.list_offsets(request, **options))
        found: dict[TopicPartition, int] = {}
        for each, future in futures.items():
            partition = TopicPartition(each.topic, each.partition)
            with suppress(UnknownTopic):
                found[partition] = self._answer(str(partition), future).offset
        later = [partition for partition, offset in found.items() if offset < 0]
        return found | (self.offsets(later, "latest", isolation_level=isolation_level) if later else {})

    def _bounded(self) -> dict[str, Any]:
        return {"request_timeout": self._timeout_s}

    def _of_group(self, name: str, request: Callable[[], Mapping[str, Future[Any]]]) -> Any:
        subject = f"group '{name}'"
        return self._when_loaded(subject, lambda: self._answer(subject, request()[name]))

    def _when_loaded(self, subject: str, request: Callable[[], Answer]) -> Answer:
        """Repeats the request while the coordinator loads the group, within the timeout; librdkafka does not."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._translated(subject, request)
            except CoordinatorLoading:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOADING_PAUSE_S)

    def _translated(self, subject: str, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except self._kafka_exception as failure:
            error = from_kafka_error(failure.args[0], subject)
            if isinstance(error, BrokerUnreachable):
                self._client.poll(0)  # for the callback
                if self._denials:
                    raise AccessDenied(f"{subject}: {self._denials[0]}") from failure
            raise error from failure
        except ValueError as failure:
            raise ClientError(f"{subject}: {failure}") from failure

    def _answer(self, subject: str, future: Future[Answer]) -> Answer:
        return self._translated(subject, lambda: future.result(timeout=self._timeout_s * 2))


def _read_committed() -> Any:
    from confluent_kafka import IsolationLevel

    return IsolationLevel.READ_COMMITTED


def _kafka_name(state: Any) -> str:
    """Kafka's name for one of the binding's constants: `PREPARING_REBALANCING` is `PreparingRebalance`."""
    return "".join(part.capitalize() for part in str(state.name).replace("REBALANCING", "REBALANCE").split("_"))


def _kafka_id(found: Any) -> str:
    """An id as Kafka writes it, in URL-safe base64; the binding's own text is in the standard alphabet."""
    bits = (found.get_most_significant_bits(), found.get_least_significant_bits())
    return uuid_text(b"".join((each % (1 << 64)).to_bytes(8, "big") for each in bits))


def unknown_topic(name: str, known: Iterable[str]) -> UnknownTopic:
    """The error for a topic that is not in `known`, with the most similar name."""
    from difflib import get_close_matches

    nearest = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    return UnknownTopic(f"topic '{name}' does not exist{hint}")
