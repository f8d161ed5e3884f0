"""What the table of bad requests is made of: a case, the broker it is tried on, and one call for each API.

A call sends one request and gives the code that came back (or `CLOSED`). Cases are tried on this broker and, with
`--broker apache-kafka`, on Apache Kafka; nothing here may depend on which of the two it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from penstock.protocol.definitions.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.schema import Message
from tests.record_batches import Record, encode_batch
from tests.wire_client import ConnectionClosed, WireClient

CLOSED: Final = "closed"
NO_ANSWER: Final = "no answer"
ANSWER_TIMEOUT_S: Final = 60.0
Outcome = int | str
OK: Final = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Case:
    """One bad request; `ask` gives what came of it, and `expected` is what must come of it."""

    name: str
    ask: Callable[[Target], Outcome]
    expected: Outcome


class Target:
    """A broker and one topic on it: one partition, three records at the offsets 0 to 2."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        # The records of these tests are years old.
        self.topic, self.topic_id = self.new_topic({"retention.ms": "-1"})
        for _ in range(3):
            assert self.produce(encode_batch([Record()])) == OK

    def ask(self, request: Message, version: int) -> Any:
        """The response; a text where none came."""
        with WireClient(self._bootstrap_servers, timeout_s=ANSWER_TIMEOUT_S) as client:
            try:
                return client.ask(request, version)
            except ConnectionClosed:
                return CLOSED
            except TimeoutError:
                return NO_ANSWER

    def new_name(self) -> str:
        return f"bad-requests-{uuid4().hex}"

    def new_topic(self, configs: dict[str, str] | None = None, partitions: int = 1) -> tuple[str, bytes]:
        """Name and id of a topic that is ready to be used."""
        name = self.new_name()
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        (created,) = self.ask(CreateTopicsRequest(topics=[wanted]), 7).topics
        assert created.error_code == OK, created
        self._await_leaders(name, partitions)
        return name, created.topic_id

    def _await_leaders(self, name: str, partitions: int) -> None:
        """Apache Kafka answers before the topic can be used."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            (topic,) = self.ask(request, 12).topics
            led = sum(partition.error_code == OK for partition in topic.partitions)
            if led == partitions and self.list_offsets(-1, topic=name, partition=partitions - 1) == OK:
                return
            time.sleep(0.01)
        raise AssertionError(f"{name} has no leaders")

    # One call for each API that the cases use much. Each gives the code of the one partition or topic that is named.

    def produce(
        self,
        records: bytes | bytearray | None,
        *,
        topic: str | None = None,
        topic_id: bytes | None = None,
        index: int = 0,
        acks: int = -1,
        version: int = 9,
        transactional_id: str | None = None,
    ) -> Outcome:
        data = TopicProduceData(
            name=self.topic if topic is None else topic,
            topic_id=self.topic_id if topic_id is None else topic_id,
            partition_data=[PartitionProduceData(index=index, records=records)],
        )
        request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data], transactional_id=transactional_id)
        response = self.ask(request, version)
        return response if isinstance(response, str) else int(response.responses[0].partition_responses[0].error_code)

    def fetch(
        self,
        *,
        topic: str | None = None,
        topic_id: bytes | None = None,
        partition: int = 0,
        offset: int = 0,
        version: int = 12,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        partition_max_bytes: int = 1000,
        **fields: Any,
    ) -> Outcome:
        """The partition's code, or that of the whole response where it has one."""
        wanted = FetchTopic(
            topic=self.topic if topic is None else topic,
            topic_id=self.topic_id if topic_id is None else topic_id,
            partitions=[
                FetchPartition(
                    partition=partition,
                    fetch_offset=offset,
                    current_leader_epoch=current_leader_epoch,
                    last_fetched_epoch=last_fetched_epoch,
                    partition_max_bytes=partition_max_bytes,
                )
            ],
        )
        response = self.ask(FetchRequest(topics=[wanted], **fields), version)
        if isinstance(response, str):
            return response
        if response.error_code or not response.responses:
            return int(response.error_code)
        return int(response.responses[0].partitions[0].error_code)

    def list_offsets(
        self,
        timestamp: int,
        *,
        topic: str | None = None,
        partition: int = 0,
        version: int = 7,
        current_leader_epoch: int = -1,
        times: int = 1,
    ) -> Outcome:
        partitions = [
            ListOffsetsPartition(
                partition_index=partition, timestamp=timestamp, current_leader_epoch=current_leader_epoch
            )
        ]
        wanted = ListOffsetsTopic(name=self.topic if topic is None else topic, partitions=partitions * times)
        response = self.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), version)
        return response if isinstance(response, str) else int(response.topics[0].partitions[0].error_code)

    def end_offset(self) -> int:
        wanted = ListOffsetsTopic(name=self.topic, partitions=[ListOffsetsPartition(timestamp=-1)])
        return int(self.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7).topics[0].partitions[0].offset)

    def create(self, *topics: CreatableTopic, version: int = 7, validate_only: bool = True) -> Outcome:
        response = self.ask(CreateTopicsRequest(topics=list(topics), validate_only=validate_only), version)
        return response if isinstance(response, str) else int(response.topics[0].error_code)


def code_of(response: Any, path: Sequence[str]) -> Outcome:
    """The code of the first element of each array along `path`."""
    if isinstance(response, str):
        return response
    for name in path:
        response = getattr(response, name)[0]
    return int(response.error_code)
