"""An administrator who changes the cluster while faults happen: partitions, replicas, leaders, other topics.

What is refused is given up: only that the cluster stays right and comes to rest is asked for.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.protocol.definitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.definitions.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.definitions.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.definitions.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.definitions.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.error_codes import ErrorCode
from tests.simulation.cluster.client import Client, Unreachable

TIMEOUT_MS: Final = 2000
PREFERRED: Final = 0
BROKERS: Final = (1, 2, 3)
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
MOVED_TOPICS: Final = ("__consumer_offsets", *("__transaction_state",) * 4)
"""How often coordinators move, beside two moves of other leaders."""


class Administrator:
    def __init__(
        self, client: Client, topic: str, changes: int, *, moves_only: bool = False, takes_away: bool = False
    ) -> None:
        """`moves_only`: leaders and coordinators move again and again, a few times a second. `takes_away`: partitions
        are reassigned to two brokers too."""
        self.client = client
        self.topic = topic
        self.changes = changes
        self.moves_only = moves_only
        self.takes_away = takes_away
        self.is_done = False
        self._partitions = 2
        self._others = 0

    async def create_topic(self) -> None:
        """With min.insync.replicas=2 on three brokers; tried until it is there."""
        while True:
            try:
                answer = await self._create(self.topic, self._partitions)
            except Unreachable:
                await self.client.back_off()
                continue
            code = ErrorCode(answer.topics[0].error_code)
            self.client.note(f"create topic: {code.name}")
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            await self.client.back_off()

    async def run(self) -> None:
        random = self.client.world.random
        for _ in range(self.changes):
            await self.client.sleep(random.uniform(0.05, 0.5) if self.moves_only else random.uniform(0.5, 4.0))
            change = random.choice(
                (self._add_partition, self._reassign, self._reassign, self._elect, self._elect, self._other_topic)
            )
            if self.moves_only:
                change = self._move
            try:
                await change()
            except Unreachable as error:
                self.client.note(f"{change.__name__}: {error}")
        self.is_done = True

    async def _create(self, name: str, partitions: int) -> Any:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=3,
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        return await self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7)

    async def _add_partition(self) -> None:
        if self._partitions == 4:
            return
        wanted = CreatePartitionsTopic(name=self.topic, count=self._partitions + 1)
        answer = await self._ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS), 3)
        code = ErrorCode(answer.results[0].error_code)
        self.client.note(f"add partition {self._partitions}: {code.name}")
        if code in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS):
            self._partitions += 1

    async def _reassign(self) -> None:
        """To the brokers in another order, or to two of them; sometimes takes a reassignment back."""
        random = self.client.world.random
        topic, index = random.choice(((self.topic, 0), (self.topic, 1), *((name, 0) for name in INTERNAL_TOPICS)))
        replicas: list[int] | None = random.sample(
            BROKERS, random.choice((2, 3, 3)) if self.takes_away and topic == self.topic else 3
        )
        if random.random() < 0.15:
            replicas = None
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(name=topic, partitions=[partition])]
        )
        answer = await self._ask(request, 1)
        results = [each for response in answer.responses for each in response.partitions]
        codes = [ErrorCode(each.error_code).name for each in results] or ErrorCode(answer.error_code).name
        self.client.note(f"reassign {topic}-{index} to {replicas}: {codes}")

    async def _move(self) -> None:
        """Another replica of a partition becomes the preferred one, and leads."""
        random = self.client.world.random
        place = random.choice(((self.topic, 0), (self.topic, 1), *((name, 0) for name in MOVED_TOPICS)))
        replicas = random.sample(BROKERS, 3)
        partition = ReassignablePartition(partition_index=place[1], replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(name=place[0], partitions=[partition])]
        )
        await self._ask(request, 1)
        wanted = [TopicPartitions(topic=place[0], partitions=[place[1]])]
        await self._ask(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted, timeout_ms=TIMEOUT_MS), 2)
        self.client.note(f"moves {place} to {replicas}")

    async def _elect(self) -> None:
        wanted = [
            TopicPartitions(topic=self.topic, partitions=[0, 1]),
            *(TopicPartitions(topic=name, partitions=[0]) for name in INTERNAL_TOPICS),
        ]
        request = ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=None if self.client.world.chance(0.3) else wanted,
            timeout_ms=TIMEOUT_MS,
        )
        answer = await self._ask(request, 2)
        self.client.note(f"elect preferred leaders: {ErrorCode(answer.error_code).name}")

    async def _other_topic(self) -> None:
        """Topics come and go: their partitions are created and deleted while brokers are away."""
        name = f"other-{self._others // 2}"
        if self._others % 2:
            deleted = await self._ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS), 6
            )
            self.client.note(f"delete {name}: {ErrorCode(deleted.responses[0].error_code).name}")
        else:
            answer = await self._create(name, 1)
            self.client.note(f"create {name}: {ErrorCode(answer.topics[0].error_code).name}")
        self._others += 1

    async def _ask(self, request: Any, version: int) -> Any:
        return await self.client.ask(self.client.any_broker(), request, version, timeout_s=3.0)
