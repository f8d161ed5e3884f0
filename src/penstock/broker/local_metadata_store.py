"""The metadata store of a one-node cluster: the local journal (`metadata/store_local.py`) behind the event loop.

Proposals are committed in rounds. A round runs the decisions of all proposals that arrived while the last one was being
written, in their order, and writes their changes as one line of the journal, with one fsync, on a thread. So the loop
never waits for the disk, and proposals that arrive together share an fsync.

A decision must see the changes of the decisions before it, although these are not on disk yet. Two images make that
possible: `image` holds what is committed, and a second one runs ahead of it by the changes of the current round. An
answer leaves only when everything that its decision saw is committed. A refusal is such an answer too: it waits for its
round, and is decided again if the round fails.

Invariant: `image` holds exactly the durable changes that are in the journal, and this process's own registrations.
Invariant: one call of the journal runs at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.metadata.changes import BrokerChange, Change, DurableChange
from penstock.metadata.store import CommittedChanges, Decide, OnDecided
from penstock.metadata.store_local import LocalJournal
from penstock.protocol.error_codes import BrokerError, ErrorCode

logger = logging.getLogger(__name__)


class _Proposal:
    __slots__ = ("changes", "decide", "on_decided", "refusal")

    def __init__(self, decide: Decide, on_decided: OnDecided) -> None:
        self.decide = decide
        self.on_decided = on_decided
        self.changes: tuple[Change, ...] = ()
        self.refusal: BrokerError | None = None


class LocalMetadataStore:
    """Implements `MetadataStore`. Belongs to the event loop."""

    lease_deadline_ms = None

    def __init__(self, journal: LocalJournal, loop: asyncio.AbstractEventLoop) -> None:
        self.image = journal.image
        self._ahead = self.image.copy()
        self._journal = journal
        self._loop = loop
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-metadata")
        self._waiting: list[_Proposal] = []
        self._in_round = False
        self._closed = False
        self._position = 0
        self._on_committed: Callable[[CommittedChanges], None] | None = None

    def subscribe(self, on_committed: Callable[[CommittedChanges], None]) -> None:
        assert self._on_committed is None, "a store has one subscriber"
        self._on_committed = on_committed

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        self._waiting.append(_Proposal(decide, on_decided))
        if not self._in_round:
            self._in_round = True
            # After this turn of the loop: what other connections propose by then joins the round.
            self._loop.call_soon(self._begin_round)

    def close(self) -> None:
        self._closed = True
        self._thread.shutdown(wait=True)
        self._journal.close()

    async def leave(self) -> None:
        """There is no other broker."""

    def _begin_round(self) -> None:
        if self._closed:
            return
        proposals, self._waiting = self._waiting, []
        for position, proposal in enumerate(proposals):
            self._decide(proposal, proposals[:position])
        durable: list[DurableChange] = [
            change for proposal in proposals for change in proposal.changes if not isinstance(change, BrokerChange)
        ]
        if not durable:
            self._finish_round(proposals, None)
            return
        written = self._loop.run_in_executor(self._thread, _outcome, self._journal.append, durable)
        written.add_done_callback(lambda done: self._finish_round(proposals, done.result()))

    def _decide(self, proposal: _Proposal, earlier: Sequence[_Proposal]) -> None:
        proposal.changes, proposal.refusal = (), None
        try:
            changes = tuple(proposal.decide(self._ahead))
            for change in changes:
                self._ahead.apply(change)
        except BrokerError as error:
            proposal.refusal = error.to_keep()
        except Exception:
            # A bug in this decision must not leave the proposals beside it unanswered. The changes before it stand.
            logger.exception("a decision about the cluster's metadata failed")
            proposal.refusal = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._ahead = self.image.copy()
            for other in earlier:
                for change in other.changes:
                    self._ahead.apply(change)
        else:
            proposal.changes = changes

    def _finish_round(self, proposals: Sequence[_Proposal], failure: BrokerError | None) -> None:
        if self._closed:
            return
        if failure is None:
            for proposal in proposals:
                self._commit(proposal)
        else:
            self._ahead = self.image.copy()
            # A refusal may have been due to a change that failed: an existing topic that does not exist after all.
            self._waiting[:0] = [proposal for proposal in proposals if proposal.refusal is not None]
            for proposal in proposals:
                if proposal.refusal is None:
                    _answer(proposal, failure)
        if self._journal.has_grown:
            live_changes = self.image.live_changes()
            compacted = self._loop.run_in_executor(self._thread, _outcome, self._journal.compact, live_changes)
            compacted.add_done_callback(lambda done: self._end_round())
        else:
            self._end_round()

    def _commit(self, proposal: _Proposal) -> None:
        if proposal.refusal is None and proposal.changes:
            for change in proposal.changes:
                self.image.apply(change)
            self._position += 1
            if self._on_committed is not None:
                self._on_committed(CommittedChanges(self._position, proposal.changes))
        _answer(proposal, proposal.refusal)

    def _end_round(self) -> None:
        if self._waiting:
            self._begin_round()
        else:
            self._in_round = False


def _answer(proposal: _Proposal, outcome: BrokerError | None) -> None:
    try:
        proposal.on_decided(outcome)
    except Exception:
        logger.exception("the answer to a change of the cluster's metadata failed")


def _outcome(work: Callable[[Sequence[DurableChange]], None], changes: Sequence[DurableChange]) -> BrokerError | None:
    """Runs the journal's work, on its thread."""
    try:
        work(changes)
    except BrokerError as error:
        return error.to_keep()
    return None
