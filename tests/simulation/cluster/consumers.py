"""Consumers of a topic, and a committer of offsets. They retry as Kafka's consumer does.

A consumer reads every partition from its start and remembers what it saw where. It knows the leader epoch that it reads
in, and asks no broker that is behind it. Nothing is deleted here, so that OFFSET_OUT_OF_RANGE or a truncation below its
position means that records which readers had seen are lost.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.definitions.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.definitions.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_batch import BatchHeader, parse_header
from penstock.protocol.records import read_records
from tests.simulation.cluster.client import GROUP_KEY, Client, Place, Unreachable
from tests.simulation.cluster.history import History
from tests.simulation.cluster.world import SimulationFault

FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 6
OFFSET_COMMIT_VERSION: Final = 8
OFFSET_FETCH_VERSION: Final = 8
READ_COMMITTED: Final = 1
POLL_S: Final = 0.2
LATEST: Final = -1
FETCH_BYTES: Final = 4096
BATCH_BYTES_MAX: Final = 1 << 20

_LEADER_ERRORS: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


def batches_in(records: Any) -> list[tuple[BatchHeader, memoryview]]:
    """The whole batches of a fetch; the last one may be cut off."""
    content, position, found = memoryview(bytes(records or b"")), 0, []
    while position + 61 <= len(content):
        header = parse_header(content, position)
        if position + header.size > len(content):
            break
        found.append((header, content[position : position + header.size]))
        position += header.size
    return found


class Consumer:
    """Reads until it is stopped. With a rack it follows the leader's advice to read from a follower (KIP-392)."""

    def __init__(self, client: Client, history: History, topic: str, *, read_committed: bool, rack: str = "") -> None:
        self.client = client
        self.history = history
        self.topic = topic
        self.read_committed = read_committed
        self.rack = rack
        self.positions: dict[Place, int] = {}
        self.found: dict[Place, dict[int, bytes]] = {}
        self.ends: dict[Place, int] = {}
        """Of each partition: the last stable offset that it was told, or the high watermark."""
        self._epochs: dict[Place, int] = {}
        self._latest: dict[Place, tuple[int, int]] = {}
        self._preferred: dict[Place, int] = {}
        self.is_stopped = False

    async def run(self) -> None:
        while not self.is_stopped:
            for index in await self.client.refresh(self.topic):
                if (self.topic, index) not in self.positions:
                    self.positions[self.topic, index] = 0
            for place in tuple(self.positions):
                await self._read(place)
                if self.client.world.chance(0.1):
                    await self._look_up_end(place)
            await self.client.sleep(self.client.world.random.uniform(0.1, 2 * POLL_S))

    async def _read(self, place: Place) -> None:
        leader, epoch = await self.client.leader_of(place)
        if epoch < self._epochs.get(place, 0):
            self.client.forget_leader(place)  # metadata of a broker that is behind
            return
        self._epochs[place] = epoch
        position = self.positions[place]
        partition = FetchPartition(
            partition=place[1],
            current_leader_epoch=epoch,
            fetch_offset=position,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=READ_COMMITTED if self.read_committed else 0,
            topics=[FetchTopic(topic=place[0], partitions=[partition])],
            rack_id=self.rack,
        )
        broker = self._preferred.pop(place, leader)
        try:
            answer = await self.client.ask(broker, request, FETCH_VERSION)
        except Unreachable:
            self.client.forget_leader(place)
            return
        (data,) = answer.responses[0].partitions
        code = ErrorCode(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and broker != leader:
            return  # a follower that is behind; Kafka's consumer asks the leader then
        if code in _LEADER_ERRORS:
            self.client.forget_leader(place)
            return
        if code != ErrorCode.NONE or (data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0):
            raise SimulationFault(
                f"{self.client.name} at {place} offset {position} of broker {broker} in epoch {epoch}: {code.name}, "
                f"high watermark {data.high_watermark}, diverging {data.diverging_epoch}"
            )
        if data.preferred_read_replica >= 0:
            self._preferred[place] = data.preferred_read_replica
        self._take(place, data)

    def _take(self, place: Place, data: Any) -> None:
        begins = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        aborting: set[int] = set()
        for header, batch in batches_in(data.records):
            while begins and begins[0][0] < header.end_offset:
                aborting.add(begins.pop(0)[1])
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (self.read_committed and header.is_transactional and header.producer_id in aborting):
                self._see(place, header, batch)
            self.positions[place] = max(self.positions[place], header.end_offset)
        self.ends[place] = data.last_stable_offset if self.read_committed else data.high_watermark

    def _see(self, place: Place, header: BatchHeader, batch: memoryview) -> None:
        found = self.found.setdefault(place, {})
        for record in read_records(batch, header, BATCH_BYTES_MAX):
            if record.offset < self.positions[place]:
                continue
            value = bytes(record.value or b"")
            found[record.offset] = value
            if self.read_committed:
                self.history.reads_committed(place, record.offset, value, self.client.name)
            else:
                self.history.reads(place, record.offset, value, self.client.name)

    async def _look_up_end(self, place: Place) -> None:
        """The end that one leader tells never goes back, nor that of a leader of a newer epoch."""
        leader, epoch = await self.client.leader_of(place)
        partition = ListOffsetsPartition(partition_index=place[1], current_leader_epoch=epoch, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=place[0], partitions=[partition])]
        )
        try:
            answer = await self.client.ask(leader, request, LIST_OFFSETS_VERSION)
        except Unreachable:
            self.client.forget_leader(place)
            return
        (result,) = answer.topics[0].partitions
        if result.error_code:
            if ErrorCode(result.error_code) not in _LEADER_ERRORS:
                raise SimulationFault(f"ListOffsets of {place}: {ErrorCode(result.error_code).name}")
            self.client.forget_leader(place)
            return
        known_epoch, known = self._latest.get(place, (-1, -1))
        if epoch >= known_epoch:
            if result.offset < known:
                raise SimulationFault(
                    f"the high watermark of {place} went back from {known} in epoch {known_epoch} to {result.offset} "
                    f"in epoch {epoch}, as broker {leader} told {self.client.name}"
                )
            self._latest[place] = (epoch, result.offset)


class Committer:
    """Commits offsets of a group that grow, one after another, and looks them up."""

    def __init__(self, client: Client, history: History, topic: str, group: str, commits: int) -> None:
        self.client = client
        self.history = history
        self.topic = topic
        self.group = group
        self.commits = commits
        self.is_done = False

    async def run(self) -> None:
        for offset in range(1, self.commits + 1):
            await self._commit(offset)
            if self.client.world.chance(0.3):
                await self.look_up()
            await self.client.sleep(self.client.world.random.expovariate(0.7))
        self.is_done = True

    async def _commit(self, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.group, topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[partition])]
        )
        self.history.attempts_offset(self.group, offset)
        await self._ask(request, OFFSET_COMMIT_VERSION, lambda answer: answer.topics[0].partitions[0].error_code)
        self.client.note(f"committed offset {offset}")
        self.history.commits_offset(self.group, offset)

    async def look_up(self) -> None:
        wanted = OffsetFetchRequestGroup(
            group_id=self.group, topics=[OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])]
        )
        answer = await self._ask(
            OffsetFetchRequest(groups=[wanted], require_stable=True),
            OFFSET_FETCH_VERSION,
            lambda answer: answer.groups[0].error_code or answer.groups[0].topics[0].partitions[0].error_code,
        )
        found = answer.groups[0].topics[0].partitions[0].committed_offset
        self.history.finds_offset(self.group, found, f"{self.client.name} looked up its offset")

    async def _ask(self, request: Any, version: int, code_of: Any) -> Any:
        while True:
            try:
                answer = await self.client.ask_coordinator(GROUP_KEY, self.group, request, version)
            except Unreachable:
                await self.client.back_off()
                continue
            code = ErrorCode(code_of(answer))
            if code == ErrorCode.NONE:
                return answer
            self.client.note(f"{type(request).__name__} refused: {code.name}")
            if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self.client.forget_coordinator(GROUP_KEY, self.group)
            elif not code.retriable:
                raise SimulationFault(f"{self.client.name}: {type(request).__name__}: {code.name}")
            await self.client.back_off()
