"""Producer ids for this broker's clients, taken from the cluster in blocks, as Kafka's brokers take them.

A block is a committed change of the metadata (`ProducerIdsAllocated`). Ids are handed out from memory until the block
is used up; a restart gives up the rest of it.

Invariant: an id is handed out only after a committed block covers it, so none is handed out twice, whatever crashes.

Belongs to the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.core.ids import ProducerId
from penstock.metadata.changes import ProducerIdsAllocated
from penstock.metadata.image import ClusterImage
from penstock.metadata.store import MetadataStore
from penstock.protocol.error_codes import BrokerError, ErrorCode

PRODUCER_ID_BLOCK: Final = 1000

OnAvailable = Callable[[BrokerError | None], None]


class ProducerIds:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = ProducerId(0)
        self._block_end = ProducerId(0)
        self._waiting: list[OnAvailable] = []
        self._block_is_proposed = False

    def when_available(self, on_available: OnAvailable) -> None:
        """Calls back when `allocate` will succeed: at once, except for every thousandth id, which needs a new block.

        An error means that no block could be had. The callback must take its id, if it needs one, before it returns.
        """
        if self._next < self._block_end:
            on_available(None)
            return
        self._waiting.append(on_available)
        if not self._block_is_proposed:
            self._propose_block()

    def allocate(self) -> ProducerId:
        """The next id. COORDINATOR_LOAD_IN_PROGRESS, as in Kafka, if a new block is needed: it is on its way then."""
        if self._next == self._block_end:
            if not self._block_is_proposed:
                self._propose_block()
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The broker is waiting for new producer ids.")
        allocated = self._next
        self._next = ProducerId(allocated + 1)
        return allocated

    def _propose_block(self) -> None:
        self._block_is_proposed = True
        start = ProducerId(0)

        def decide(image: ClusterImage) -> list[ProducerIdsAllocated]:
            nonlocal start
            start = image.next_producer_id
            return [ProducerIdsAllocated(ProducerId(start + PRODUCER_ID_BLOCK))]

        def decided(error: BrokerError | None) -> None:
            self._block_is_proposed = False
            if error is None:
                self._next, self._block_end = start, ProducerId(start + PRODUCER_ID_BLOCK)
            elif error.code == ErrorCode.REQUEST_TIMED_OUT:
                # As Kafka answers a client while it waits for a block: it asks again.
                error = BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message)
            waiting, self._waiting = self._waiting, []
            for on_available in waiting:
                if error is None:
                    self.when_available(on_available)
                else:
                    on_available(error)

        self._store.propose(decide, decided)
