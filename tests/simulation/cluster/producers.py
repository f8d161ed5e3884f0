"""Producers with acks=all: an idempotent one, and one with transactions. They retry as Kafka's producer does.

A batch is sent until it is acknowledged or refused for good; its sequence stays the same. Errors that an idempotent
producer meets only when records were lost (OUT_OF_ORDER_SEQUENCE_NUMBER) are faults of the cluster here: nothing else
could have caused them.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.protocol.definitions.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.definitions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.definitions.end_txn import EndTxnRequest
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.definitions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_encoding import BatchProducer, NewRecord, encode_batch
from tests.simulation.cluster.client import GROUP_KEY, TRANSACTION_KEY, Client, Place, Unreachable
from tests.simulation.cluster.history import History, Outcome, Transaction
from tests.simulation.cluster.world import EPOCH_MS, SimulationFault

ACKS_ALL: Final = -1
PRODUCE_TIMEOUT_MS: Final = 2000
OLD_PRODUCE, NEW_PRODUCE = 11, 12
OLD_END, NEW_END = 4, 5
TRANSACTION_TIMEOUT_MS: Final = 60_000

_FENCED: Final = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
_RETRIED: Final = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
_MOVED: Final = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


class Fenced(Exception):
    """The coordinator ended this producer's transaction, or another producer took over."""


class Producer:
    """What both kinds have in common: an identity, sequences, and one batch at a time."""

    def __init__(self, client: Client, history: History, topic: str, records: int, pause_s: float) -> None:
        self.client = client
        self.pause_s = pause_s
        self.history = history
        self.topic = topic
        self.records = records
        self.is_done = False
        self._sent = 0
        self._identity = (-1, -1)
        self._sequences: dict[Place, int] = {}

    async def run(self) -> None:
        raise NotImplementedError

    async def rest(self) -> None:
        await self.client.sleep(self.client.world.random.uniform(0.0, 2 * self.pause_s))

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != self._identity:
            self._identity = (producer_id, epoch)
            self._sequences.clear()

    def _values(self) -> list[bytes]:
        count = min(1 + self.client.world.random.randrange(2), self.records - self._sent)
        values = [f"{self.client.name}/{self._sent + index}".encode() for index in range(count)]
        self._sent += count
        return values

    async def _place(self) -> Place:
        while not (indexes := await self.client.refresh(self.topic)):
            await self.client.back_off()
        return self.topic, self.client.world.random.choice(indexes)

    async def _send(self, place: Place, values: list[bytes], transactional_id: str | None, version: int) -> None:
        """Until it is acknowledged. Raises Fenced."""
        sequence = self._sequences.get(place, 0)
        producer_id, epoch = self._identity
        records, _ = encode_batch(
            [NewRecord(None, value, EPOCH_MS + int(self.client.world.now_s * 1000)) for value in values],
            producer=BatchProducer(producer_id, epoch, sequence),
            transactional=transactional_id is not None,
        )
        data = TopicProduceData(name=place[0], partition_data=[PartitionProduceData(index=place[1], records=records)])
        request = ProduceRequest(
            transactional_id=transactional_id, acks=ACKS_ALL, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data]
        )
        while True:
            leader, _ = await self.client.leader_of(place)
            try:
                answer = await self.client.ask(leader, request, version)
            except Unreachable:
                self.client.forget_leader(place)
                await self.client.back_off()
                continue
            (result,) = answer.responses[0].partition_responses
            code = ErrorCode(result.error_code)
            if code == ErrorCode.NONE:
                self.client.note(f"{place} acknowledged {values} at {result.base_offset} by {leader}")
                self.history.acknowledges(place, result.base_offset, values)
                self._sequences[place] = sequence + len(values)
                return
            self.client.note(f"{place} {values} refused by {leader}: {code.name}")
            if code in _FENCED:
                raise Fenced
            if not code.retriable and code not in _RETRIED:
                raise SimulationFault(f"{self.client.name}: {place} {values}: {code.name}: {result.error_message}")
            self.client.forget_leader(place)
            await self.client.back_off()


class IdempotentProducer(Producer):
    async def run(self) -> None:
        while self._identity[0] < 0:
            try:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
                answer = await self.client.ask(self.client.any_broker(), request, 4)
            except Unreachable:
                continue
            if answer.error_code == ErrorCode.NONE:
                self._become(answer.producer_id, answer.producer_epoch)
            else:
                await self.client.back_off()
        while self._sent < self.records:
            place, values = await self._place(), self._values()
            self.history.attempts(values, None)
            await self._send(place, values, None, NEW_PRODUCE)
            await self.rest()
        self.is_done = True


class TransactionalProducer(Producer):
    """Writes in transactions of a few batches, some with its group's offset, and commits most of them.

    Now and then it stops in the middle of one and starts again, as an application that crashed does.
    """

    def __init__(
        self,
        client: Client,
        history: History,
        topic: str,
        records: int,
        group: str,
        *,
        new_protocol: bool,
        pause_s: float,
    ) -> None:
        super().__init__(client, history, topic, records, pause_s)
        self.transactional_id = f"id-of-{client.name}"
        self.group = group
        self._new_protocol = new_protocol
        self._produce_version = NEW_PRODUCE if new_protocol else OLD_PRODUCE
        self._number = 0

    async def run(self) -> None:
        await self._begin_session()
        while self._sent < self.records:
            await self.rest()
            transaction = self.history.begin_transaction(f"{self.client.name}#{self._number}")
            self._number += 1
            try:
                if await self._write(transaction):
                    await self._end(transaction, commits=self.client.world.chance(0.75))
                    continue
            except Fenced:
                self.client.note(f"{transaction.name} was fenced")
            await self._begin_session()
            if transaction.outcome is Outcome.OPEN:
                # The new session ended what the earlier one had begun.
                transaction.outcome = Outcome.ABORTED
        self.is_done = True

    async def _begin_session(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        answer = await self._ask_coordinator(TRANSACTION_KEY, self.transactional_id, request, 4, fences=False)
        self.client.note(f"session {answer.producer_id}/{answer.producer_epoch}")
        self._become(answer.producer_id, answer.producer_epoch)

    async def _write(self, transaction: Transaction) -> bool:
        """False: the application ends here, without a word to the cluster."""
        random = self.client.world.random
        for _ in range(random.randrange(1, 4)):
            place, values = await self._place(), self._values()
            if not values:
                break
            self.history.attempts(values, transaction)
            if not self._new_protocol:
                await self._add(place)
            await self._send(place, values, self.transactional_id, self._produce_version)
            if random.random() < 0.05:
                return False
        if random.random() < 0.5:
            await self._send_offset(transaction)
        return random.random() >= 0.05

    async def _add(self, place: Place) -> None:
        producer_id, epoch = self._identity
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=place[0], partitions=[place[1]])],
        )

        def code_of(answer: Any) -> int:
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            return int(result.partition_error_code)

        await self._ask_coordinator(TRANSACTION_KEY, self.transactional_id, request, 3, code_of)

    async def _send_offset(self, transaction: Transaction) -> None:
        producer_id, epoch = self._identity
        if not self._new_protocol:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                group_id=self.group,
            )
            await self._ask_coordinator(TRANSACTION_KEY, self.transactional_id, adding, 3)
        offset = self._number
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
        )
        version = 5 if self._new_protocol else 4
        await self._ask_coordinator(
            GROUP_KEY, self.group, request, version, lambda answer: int(answer.topics[0].partitions[0].error_code)
        )
        transaction.offset = offset

    async def _end(self, transaction: Transaction, *, commits: bool) -> None:
        producer_id, epoch = self._identity
        if commits:
            transaction.outcome = Outcome.UNKNOWN
            if transaction.offset is not None:
                self.history.attempts_offset(self.group, transaction.offset)
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commits
        )
        version = NEW_END if self._new_protocol else OLD_END
        if not transaction.acknowledged and transaction.offset is None:
            # Nothing was added to it, and the coordinator of the old protocol knows of no transaction.
            transaction.outcome = Outcome.ABORTED
            return
        answer = await self._ask_coordinator(TRANSACTION_KEY, self.transactional_id, request, version)
        transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        self.client.note(f"{transaction.name} {transaction.outcome.value}")
        if commits and transaction.offset is not None:
            self.history.commits_offset(self.group, transaction.offset)
        if self._new_protocol:
            self._become(answer.producer_id, answer.producer_epoch)

    async def _ask_coordinator(
        self,
        kind: int,
        key: str,
        request: Any,
        version: int,
        code_of: Any = lambda answer: answer.error_code,
        *,
        fences: bool = True,
    ) -> Any:
        """Until it is answered without an error. Raises Fenced."""
        while True:
            try:
                answer = await self.client.ask_coordinator(kind, key, request, version)
            except Unreachable:
                await self.client.back_off()
                continue
            code = ErrorCode(code_of(answer))
            if code == ErrorCode.NONE:
                return answer
            self.client.note(f"{type(request).__name__} refused: {code.name}")
            if code in _MOVED:
                self.client.forget_coordinator(kind, key)
            elif fences and code in _FENCED:
                raise Fenced
            elif not code.retriable and code not in _RETRIED:
                raise SimulationFault(f"{self.client.name}: {type(request).__name__}: {code.name}")
            await self.client.back_off()
