"""aiokafka's consumers in groups and its transactional producer, which all live in one event loop of their own."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError, ProducerFenced

from tests.clients.group_interface import (
    ASSIGNED,
    AUTO_COMMIT_INTERVAL_MS,
    HEARTBEAT_INTERVAL_MS,
    PRODUCER_FENCED,
    REVOKED,
    SESSION_TIMEOUT_MS,
    GroupMember,
    Membership,
    MemberState,
    Received,
    TransactionalProducer,
)
from tests.clients.interface import REQUEST_TIMEOUT_S, RefusedError
from tests.clients.records import Record

_T = TypeVar("_T")
_ASSIGNORS: Final = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class EventLoopThread:
    """An event loop that runs until it is closed, for what outlives a call."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(REQUEST_TIMEOUT_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(REQUEST_TIMEOUT_S)
        self._loop.close()


class AiokafkaMember(GroupMember, ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, event_loop: EventLoopThread, bootstrap_servers: str, membership: Membership) -> None:
        self._event_loop = event_loop
        self.membership = membership
        self._seen = MemberState()
        self._closed = False
        event_loop.run(self._open(bootstrap_servers))

    async def _open(self, bootstrap_servers: str) -> None:
        wanted = self.membership.assignor
        assignor = {} if wanted is None else {"partition_assignment_strategy": [_ASSIGNORS[wanted]]}
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=self.membership.group,
            group_instance_id=self.membership.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=self.membership.auto_commit,
            auto_commit_interval_ms=AUTO_COMMIT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            **assignor,
        )
        self._consumer.subscribe([self.membership.topic], listener=self)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            # Returns only when the first assignment is there.
            await self._consumer.start()
            while True:
                for records in (await self._consumer.getmany(timeout_ms=100)).values():
                    self._seen.received += [Received(each.partition, each.offset, each.value) for each in records]
        finally:
            await self._consumer.stop()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._seen.rebalance(ASSIGNED, frozenset(each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._seen.rebalance(REVOKED, frozenset(each.partition for each in revoked))

    def state(self) -> MemberState:
        async def look() -> MemberState:
            if self._reading.done():
                self._reading.result()
            return copy.deepcopy(self._seen)

        return self._event_loop.run(look())

    def to_commit(self) -> dict[TopicPartition, int]:
        topic = self.membership.topic
        return {TopicPartition(topic, each): offset for each, offset in self.state().next_offsets().items()}

    def commit(self) -> None:
        with _refusals():
            self._event_loop.run(self._consumer.commit(self.to_commit()))

    def close(self) -> None:
        async def end() -> None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

        if not self._closed:
            self._closed = True
            self._event_loop.run(end())


class AiokafkaTransactionalProducer(TransactionalProducer):
    def __init__(self, event_loop: EventLoopThread, bootstrap_servers: str, transactional_id: str) -> None:
        self._event_loop = event_loop
        self._started = False

        async def create() -> Any:
            return AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=transactional_id)

        self._producer = event_loop.run(create())

    def begin(self) -> None:
        async def start_and_begin() -> None:
            if not self._started:
                await self._producer.start()
                self._started = True
            await self._producer.begin_transaction()

        self._run(start_and_begin())

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        async def send_all() -> None:
            sent = [
                await self._producer.send(topic, value=record.value, key=record.key, partition=partition)
                for record in records
            ]
            await asyncio.gather(*sent)

        self._run(send_all())

    def send_offsets(self, member: GroupMember) -> None:
        assert isinstance(member, AiokafkaMember)
        self._run(self._producer.send_offsets_to_transaction(member.to_commit(), member.membership.group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._event_loop.run(self._producer.stop())

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        with _refusals():
            self._event_loop.run(coroutine)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ProducerFenced as error:
        # The one error of the broker's that aiokafka shows under a name of its own, without its code.
        raise RefusedError(PRODUCER_FENCED, str(error)) from error
    except KafkaError as error:
        raise RefusedError(error.errno, str(error)) from error
