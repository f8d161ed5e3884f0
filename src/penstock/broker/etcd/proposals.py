"""Proposals of this broker that wait for the store, and the rounds in which they are committed.

A round decides the proposals that are waiting, in their order, on an image that runs ahead by the changes of those
before. It is one transaction: an entry of the log for each proposal with changes. Nothing here speaks to the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.broker.etcd.stored_cluster import Registration
from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerGone, BrokerRegistered, BrokerUnregistered, Change, ControllerElected
from penstock.metadata.cluster_log import (
    ENTRY_BYTES_MAX,
    ClusterKeys,
    Entry,
    Head,
    encode_entry,
    encode_head,
    encode_registration,
)
from penstock.metadata.image import ClusterImage
from penstock.metadata.key_value_store import NO_REVISION, Compare, Delete, LeaseId, LeaseNotFound, Put, Revision
from penstock.metadata.store import Decide, OnDecided
from penstock.protocol.error_codes import BrokerError, ErrorCode

logger = logging.getLogger(__name__)

ROUND_PROPOSALS_MAX: Final = 50
"""A transaction of etcd has at most 128 operations."""


class Proposal:
    """Answered once: with the outcome, or when its time is over."""

    __slots__ = ("_on_decided", "_timer", "changes", "decide", "is_answered", "refusal", "value")

    def __init__(self, decide: Decide, on_decided: OnDecided) -> None:
        self.decide = decide
        self._on_decided = on_decided
        self._timer: asyncio.TimerHandle | None = None
        self.is_answered = False
        self.changes: tuple[Change, ...] = ()
        self.refusal: BrokerError | None = None
        self.value = b""

    def answer_after(self, seconds: float, timed_out: Callable[[Proposal], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, timed_out, self)

    def answer(self, outcome: BrokerError | None) -> None:
        if self.is_answered:
            return
        self.is_answered = True
        self.cancel()
        try:
            self._on_decided(outcome)
        except Exception:
            logger.exception("the answer to a change of the cluster's metadata failed")

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


@dataclass(slots=True)
class Round:
    """`base` is the head that the round was decided on. `proposer` names the round in its entries."""

    proposer: str
    base: Head
    base_revision: Revision
    proposals: list[Proposal]
    is_committed: bool = False

    @property
    def with_changes(self) -> list[Proposal]:
        return [proposal for proposal in self.proposals if proposal.changes]

    def answer(self) -> None:
        for proposal in self.proposals:
            proposal.answer(proposal.refusal)


def decide_round(waiting: list[Proposal], image: ClusterImage, head: Head, revision: Revision, proposer: str) -> Round:
    """Takes proposals from the front of `waiting`: as many as fit into one transaction."""
    decided = Round(proposer, head, revision, [])
    ahead = image.copy()
    size = 0
    while waiting and len(decided.proposals) < ROUND_PROPOSALS_MAX:
        proposal = waiting[0]
        if proposal.is_answered:  # its time was over before its turn came
            waiting.pop(0)
            continue
        ahead = _decide(proposal, ahead, decided, image)
        if size + len(proposal.value) > ENTRY_BYTES_MAX:
            if decided.proposals:
                break  # the next round's first one
            _refuse(proposal, "The change is too large for the metadata store; make it in several smaller ones.")
        waiting.pop(0)
        size += len(proposal.value)
        decided.proposals.append(proposal)
    return decided


def _decide(proposal: Proposal, ahead: ClusterImage, decided: Round, image: ClusterImage) -> ClusterImage:
    """Returns the image with the proposal's changes, for the next one."""
    proposal.changes, proposal.refusal, proposal.value = (), None, b""
    try:
        changes = tuple(proposal.decide(ahead))
        for change in changes:
            ahead.apply(change)
        if changes:
            proposal.value = encode_entry(Entry(decided.proposer, changes))
    except BrokerError as error:
        proposal.refusal = error.to_keep()
    except Exception:
        # A bug in this decision must not leave the proposals beside it unanswered. The changes before it stand.
        logger.exception("a decision about the cluster's metadata failed")
        proposal.refusal = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
        ahead = image.copy()
        for earlier in decided.proposals:
            for change in earlier.changes:
                ahead.apply(change)
    else:
        proposal.changes = changes
    return ahead


def _refuse(proposal: Proposal, message: str) -> None:
    proposal.changes, proposal.value = (), b""
    proposal.refusal = BrokerError(ErrorCode.POLICY_VIOLATION, message)


def transaction(
    decided: Round,
    keys: ClusterKeys,
    broker_id: BrokerId,
    lease_id: LeaseId | None,
    registered: Mapping[BrokerId, Registration],
) -> tuple[list[Compare], list[Put | Delete]]:
    """The round as a transaction. Raises LeaseNotFound where it registers this broker, which has no lease now."""
    compares = [Compare(keys.head, decided.base_revision)]
    registrations: dict[str, Put | Delete] = {}
    entries: list[Put | Delete] = []
    number = decided.base.entry
    for proposal in decided.with_changes:
        number += 1
        entries.append(Put(keys.entry(number), proposal.value))
        for change in proposal.changes:
            operation = _registration(change, keys, broker_id, lease_id, registered)
            if operation is not None:
                registrations[operation.key] = operation
    for elected in _elected(decided.with_changes):
        # Its lease may have ended since: no entry tells that, so that the head's revision does not.
        key = keys.broker(elected)
        if key not in registrations:
            registration = registered.get(elected)
            compares.append(Compare(key, NO_REVISION if registration is None else registration.revision))
    head = Head(number, decided.base.snapshot_entry, decided.base.snapshot)
    return compares, [Put(keys.head, encode_head(head)), *entries, *registrations.values()]


def _registration(
    change: Change,
    keys: ClusterKeys,
    broker_id: BrokerId,
    lease_id: LeaseId | None,
    registered: Mapping[BrokerId, Registration],
) -> Put | Delete | None:
    """What a change does to the key of a registration."""
    match change:
        case BrokerRegistered(broker):
            assert broker.broker_id == broker_id, "a broker registers itself only"
            if lease_id is None:
                raise LeaseNotFound("this broker has no lease")
            return Put(keys.broker(broker_id), encode_registration(broker.epoch), lease_id)
        case BrokerGone(gone, epoch):
            registration = registered.get(gone)
            if registration is not None and registration.epoch == epoch:
                return Delete(keys.broker(gone))
        case BrokerUnregistered(gone):
            return Delete(keys.broker(gone))
    return None


def _elected(proposals: Sequence[Proposal]) -> set[BrokerId]:
    return {
        change.broker_id
        for proposal in proposals
        for change in proposal.changes
        if isinstance(change, ControllerElected) and change.broker_id >= 0
    }
