"""The interface of the consistent key-value store on which the metadata of a cluster is kept, in the words of etcd.

`broker/etcd/` implements it on etcd; a test implements it in memory. The metadata store of a cluster relies on nothing
but this.

- Every transaction that changes keys gets a revision, one more than the last, in one order for all clients.
- A key may be attached to a lease. The store deletes the keys of a lease when it was not kept alive for its time to
  live, or was revoked.
- A watch delivers all changes of the keys with a prefix, in the order of their revisions, and those of one revision
  together.

Invariant: `read` and `commit` are linearizable. A commit that was answered is found by every read that begins later.
Invariant: a call that raises `StoreUnavailable` may have taken effect, or may take effect later. The caller must be
able to repeat it.

Keys are text, and sorted as UTF-8. Must know nothing of what the keys mean.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

Revision = NewType("Revision", int)
LeaseId = NewType("LeaseId", int)

NO_LEASE = LeaseId(0)
NO_REVISION = Revision(0)


class StoreUnavailable(Exception):
    """The store cannot be reached, has no leader, or did not answer in time. The message is one line."""


class StoreRefused(Exception):
    """The store answered, and will refuse the same call again: wrong password, wrong certificate, no permission, disk
    quota exceeded, or a request that is too large. The message is one line."""


class RevisionCompacted(Exception):
    """The history that a watch or a read of an old revision needs is gone. The caller reads the current state."""


class LeaseNotFound(Exception):
    """The lease expired or was revoked. Its keys are deleted."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    key: str
    value: bytes
    mod_revision: Revision
    """The revision that put this value."""
    lease_id: LeaseId = NO_LEASE


@dataclass(frozen=True, slots=True)
class Compare:
    """Holds if the key was last put at this revision. NO_REVISION: if there is no such key."""

    key: str
    mod_revision: Revision


@dataclass(frozen=True, slots=True)
class Put:
    """Another lease, or none, than that of the value before: the key no longer belongs to the earlier one."""

    key: str
    value: bytes
    lease_id: LeaseId = NO_LEASE


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes one key, or with `end` all from `key` up to it, `end` excluded. No error if there is none."""

    key: str
    end: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """`revision` is that of the transaction if it succeeded, and the store's newest one otherwise."""

    succeeded: bool
    revision: Revision


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The keys of a range at one revision, sorted. `has_more`: there are more behind the limit."""

    revision: Revision
    entries: tuple[KeyValue, ...]
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key that was put, or deleted if `value` is None."""

    key: str
    value: bytes | None
    lease_id: LeaseId = NO_LEASE


@dataclass(frozen=True, slots=True)
class WatchedChanges:
    """All changes of one revision. A key occurs once."""

    revision: Revision
    changes: tuple[KeyChange, ...]


@dataclass(frozen=True, slots=True)
class Lease:
    lease_id: LeaseId
    ttl_ms: int
    """What the store granted, which may be more than what was asked for."""


def prefix_end(prefix: str) -> str:
    """The end of the range of all keys that begin with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


class KeyValueStore(Protocol):
    """Belongs to the event loop. Each call raises StoreUnavailable or StoreRefused; what else it raises stands with it.

    A call that is cancelled may have taken effect, as one that was unavailable.
    """

    async def read(
        self, key: str, end: str | None = None, *, revision: Revision = NO_REVISION, limit: int = 0
    ) -> Snapshot:
        """One key, or with `end` the keys from `key` up to it: the newest ones, or those of an earlier revision.

        Raises RevisionCompacted.
        """
        ...

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Commit:
        """Carries out all operations if all compares hold, and nothing otherwise. A key occurs in one operation.

        Raises LeaseNotFound if a Put names a lease that is gone; nothing was carried out.
        """
        ...

    def watch(self, prefix: str, *, after: Revision) -> AsyncGenerator[WatchedChanges]:
        """The changes of all keys with the prefix whose revision is greater than `after`. Never ends by itself;
        the caller closes it.

        Raises RevisionCompacted, and StoreUnavailable when the store is lost: then the caller watches again.
        """
        ...

    async def grant_lease(self, ttl_ms: int) -> Lease:
        """A new lease, at most this long unless kept alive. The time to live is rounded up to whole seconds."""
        ...

    async def keep_alive(self, lease_id: LeaseId) -> None:
        """The lease begins its time to live again. Raises LeaseNotFound."""
        ...

    async def revoke_lease(self, lease_id: LeaseId) -> None:
        """Ends the lease now, and deletes its keys. No error if it is gone."""
        ...

    async def close(self) -> None:
        """Ends all calls and watches."""
        ...
