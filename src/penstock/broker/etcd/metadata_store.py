"""The metadata store of a cluster: `MetadataStore` on a `KeyValueStore`, shared by all brokers.

Commits this broker's proposals, a round at a time, each as a transaction that compares the head of the log. Changes
take effect only as the watch delivers them (`followed_log.py`), its own as those of other brokers, so that every broker
applies the same entries in the same order. Registers the broker again when its session was lost (`session.py`).

A commit whose outcome is unknown is repeated as it is: of two transactions that compare the same head only one can
succeed. An entry that comes back names the round that it belongs to.

Invariant: a proposal is answered after its changes were applied, or after the head was read that its refusal rests on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from penstock.broker.etcd.availability import Availability
from penstock.broker.etcd.followed_log import FollowedLog
from penstock.broker.etcd.log_snapshots import SNAPSHOT_ENTRIES, LogSnapshots
from penstock.broker.etcd.proposals import Proposal, Round, decide_round, transaction
from penstock.broker.etcd.session import Session
from penstock.broker.etcd.stored_cluster import Registration, StoredCluster
from penstock.core.clock import Clock
from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerGone, BrokerRegistered
from penstock.metadata.cluster_log import ClusterKeys, MetadataDamaged
from penstock.metadata.image import ClusterImage
from penstock.metadata.key_value_store import (
    Compare,
    Delete,
    KeyValueStore,
    LeaseId,
    LeaseNotFound,
    Put,
    StoreRefused,
    StoreUnavailable,
)
from penstock.metadata.store import CommittedChanges, Decide, OnDecided
from penstock.protocol.error_codes import BrokerError, ErrorCode

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.2
_CONFLICT_PAUSE_S: Final = 0.01


class EtcdMetadataStore:
    """Implements `MetadataStore`. Belongs to the event loop. Its tasks begin with `subscribe`."""

    def __init__(
        self,
        store: KeyValueStore,
        cluster: StoredCluster,
        keys: ClusterKeys,
        *,
        broker_id: BrokerId,
        incarnation: str,
        clock: Clock,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        request_timeout_ms: int,
        on_lease: Callable[[LeaseId], None],
        on_fatal: Callable[[str], None],
        on_left: Callable[[], None] = lambda: None,
        snapshot_entries: int = SNAPSHOT_ENTRIES,
    ) -> None:
        self._store = store
        self._keys = keys
        self._broker_id = broker_id
        self._incarnation = incarnation
        self._heartbeat_s = heartbeat_interval_ms / 1000
        self._request_timeout_s = request_timeout_ms / 1000
        self._on_fatal = on_fatal
        self._on_lease = on_lease
        self._on_left = on_left
        self._availability = Availability(clock, lambda: self.lease_deadline_ms)
        self.session = Session(
            store,
            clock,
            self._availability,
            ttl_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            on_lease=self._lease_taken,
        )
        self._unregistered_deadline_ms = self.session.deadline_ms
        self._log = FollowedLog(
            store,
            keys,
            cluster,
            self._availability,
            on_entries=self._settle,
            on_registration_ended=self._registration_ended,
        )
        self._wake = asyncio.Event()
        self._snapshots = LogSnapshots(store, keys, self._log, incarnation, self._wake.set, snapshot_entries)
        self._waiting: list[Proposal] = []
        self._round: Round | None = None
        self._rounds = 0
        self._register: Decide | None = None
        self._is_leaving = False
        self._is_closed = False
        self._tasks: list[asyncio.Task[None]] = []

    # MetadataStore

    @property
    def image(self) -> ClusterImage:
        return self._log.image

    @property
    def lease_deadline_ms(self) -> int:
        """Until when this broker may act on its own, by the monotonic clock. In the past while it is not registered."""
        own = self._log.registrations.get(self._broker_id)
        is_registered = own is not None and own.lease_id == self.session.lease_id
        return self.session.deadline_ms if is_registered else self._unregistered_deadline_ms

    def subscribe(self, on_committed: Callable[[CommittedChanges], None]) -> None:
        assert self._log.on_committed is None, "a store has one subscriber"
        self._log.on_committed = on_committed
        work = (self._log.run(), self._log.audit(self._heartbeat_s), self._commit_proposals(), self.session.run())
        for each in work:
            task = asyncio.get_running_loop().create_task(each)
            task.add_done_callback(self._task_ended)
            self._tasks.append(task)

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        proposal = Proposal(decide, on_decided)
        proposal.answer_after(self._request_timeout_s, self._time_out)
        self._waiting.append(proposal)
        self._wake.set()

    def close(self) -> None:
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        self._snapshots.close()
        for proposal in (*self._waiting, *(self._round.proposals if self._round is not None else ())):
            proposal.cancel()

    async def leave(self) -> None:
        self._is_leaving = True
        lease_id = self.session.lease_id
        if lease_id is not None:
            with contextlib.suppress(StoreUnavailable, StoreRefused, TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._store.revoke_lease(lease_id)
        await self._store.close()
        self._on_left()

    # Proposals

    async def _commit_proposals(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            # After this turn of the loop: what other connections propose by then joins the round.
            await asyncio.sleep(0)
            while self._waiting or self._snapshots.is_waiting:
                try:
                    await self._commit_round()
                except StoreUnavailable as error:
                    self._availability.lost(error)
                    await self._pause()
                except LeaseNotFound:  # another one is on its way
                    await self._pause()
                except StoreRefused as error:
                    self._refuse(error)
                finally:
                    self._put_back()

    async def _commit_round(self) -> None:
        if self._snapshots.is_waiting:
            await self._snapshots.install()
        self._rounds += 1
        proposer = f"{self._incarnation}/{self._rounds}"
        log = self._log
        self._round = current = decide_round(self._waiting, log.image, log.head, log.head_revision, proposer)
        if current.with_changes:
            await self._commit(current)
        elif current.proposals:
            # Refusals leave if no broker has changed anything since what they rest on.
            await log.catch_up()
            if not self._is_over(current):
                current.is_committed = True
                current.answer()

    async def _commit(self, current: Round) -> None:
        lease_id = self.session.lease_id
        compares, operations = transaction(current, self._keys, self._broker_id, lease_id, self._log.registrations)
        while not self._is_over(current):
            try:
                succeeded = await self._try_commit(compares, operations, lease_id)
            except StoreUnavailable as error:
                self._availability.lost(error)
                await self._pause()
                continue
            if not succeeded:
                await self._log.catch_up()
                await asyncio.sleep(_CONFLICT_PAUSE_S)
                return
            while not self._is_over(current):
                await self._log.moved()
        if current.is_committed:
            self._snapshots.take_if_due()

    async def _try_commit(
        self, compares: list[Compare], operations: list[Put | Delete], lease_id: LeaseId | None
    ) -> bool:
        try:
            return (await self._store.commit(compares, operations)).succeeded
        except LeaseNotFound:
            if lease_id is not None:
                self.session.lost(lease_id)
            raise

    def _is_over(self, current: Round) -> bool:
        """Its entries came back, or those of another broker did in their place."""
        return current.is_committed or self._log.head_revision != current.base_revision

    async def _pause(self) -> None:
        """Until the next attempt, or until the watch delivered something."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RETRY_S):
                await self._log.moved()

    def _settle(self, proposers: set[str], some_are_hidden: bool) -> None:
        """Answers the round whose entries came back."""
        current = self._round
        if current is None:
            return
        if current.proposer in proposers:
            current.is_committed = True
            for proposal in current.with_changes:
                self._remember_registration(proposal)
            current.answer()
        elif some_are_hidden:
            # Its entries may be among them.
            for proposal in current.proposals:
                proposal.answer(_timed_out())

    def _put_back(self) -> None:
        """Proposals of a round that was not committed are decided again, before those that came later."""
        if self._round is not None and not self._round.is_committed:
            self._waiting[:0] = [proposal for proposal in self._round.proposals if not proposal.is_answered]
        self._round = None

    def _refuse(self, error: StoreRefused) -> None:
        logger.error("a change of the metadata was not committed: %s", error)
        for proposal in self._round.proposals if self._round is not None else ():
            proposal.answer(proposal.refusal or BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error}."))

    def _time_out(self, proposal: Proposal) -> None:
        self._availability.timed_out()
        proposal.answer(_timed_out())

    # Registration

    def _lease_taken(self, lease_id: LeaseId) -> None:
        self._on_lease(lease_id)
        self._register_again()
        self._log.notify()  # a registration may wait for the lease

    def _remember_registration(self, proposal: Proposal) -> None:
        for change in proposal.changes:
            match change:
                case BrokerRegistered():
                    self._register = proposal.decide
                case BrokerGone(broker_id, _) if broker_id == self._broker_id:
                    self._is_leaving = True

    def _registration_ended(self, broker_id: BrokerId, registration: Registration) -> None:
        if broker_id == self._broker_id and not self._is_leaving:
            self.session.lost(registration.lease_id)

    def _register_again(self) -> None:
        """After a lost lease: the decision that registered this broker is made again, on the newest image."""
        own = self._log.registrations.get(self._broker_id)
        is_registered = own is not None and own.lease_id == self.session.lease_id
        if self._register is None or self._is_leaving or self._is_closed or is_registered:
            return
        logger.warning("the session of this broker was lost; it registers again")
        self.propose(self._register, self._registered_again)

    def _registered_again(self, error: BrokerError | None) -> None:
        if error is None:
            logger.warning("this broker is registered again")
        elif error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._on_fatal(f"node.id={self._broker_id} is in use by another broker: {error.message}")
        else:
            asyncio.get_running_loop().call_later(self._heartbeat_s, self._register_again)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() or self._is_closed else task.exception()
        if isinstance(error, MetadataDamaged):
            self._on_fatal(str(error))
        elif error is not None:
            logger.error("a task of the metadata store failed", exc_info=error)
            self._on_fatal(f"the metadata store failed: {error!r}; this is a bug, please report it")


def _timed_out() -> BrokerError:
    return BrokerError(
        ErrorCode.REQUEST_TIMED_OUT,
        "The metadata store did not commit the change in time; it may still be committed.",
    )
