"""The data directory of a broker of a cluster: whose it is, and the lease of its last session.

`meta.properties` names node and cluster, as everywhere. `metadata.session` holds the last lease, so that a broker that
was killed does not wait until its own earlier session has ended: it has the directory's lock, so that the earlier
process is dead. A copy of the directory is another directory, whose original may be alive: the file names the inode.

Invariant: what belongs to another node or cluster, or to a broker without one, is refused and left as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.core.ids import uuid_text
from penstock.metadata.data_directory import (
    StoreError,
    lock_directory,
    read_meta_properties,
    replace_file,
    unusable,
    write_meta_properties,
)
from penstock.metadata.key_value_store import LeaseId
from penstock.metadata.store_local import JOURNAL

SESSION: Final = "metadata.session"


class BrokerDirectory:
    """Locked for as long as it is open."""

    def __init__(self, path: Path, node_id: int) -> None:
        """Raises StoreError for what the operator has to repair."""
        self._path = path
        self._node_id = node_id
        self._fd = lock_directory(path)
        try:
            self._identity = self._checked_identity()
        except OSError as error:
            self.close()
            raise unusable(path, error) from error
        except BaseException:
            self.close()
            raise

    @property
    def cluster_id(self) -> str | None:
        """The cluster that the directory belongs to; None for a new directory."""
        return self._identity.get("cluster.id")

    def join(self, cluster_id: str, new_uuid: Callable[[], bytes]) -> None:
        """The directory belongs to the cluster from now on, or does already."""
        if self.cluster_id is not None and self.cluster_id != cluster_id:
            raise StoreError(
                f"{self._path} belongs to the cluster {self.cluster_id}, but metadata.store holds the cluster "
                f"{cluster_id}; correct metadata.store, or use another data directory"
            )
        if self.cluster_id is None:
            directory_id = uuid_text(new_uuid())
            try:
                write_meta_properties(
                    self._path, self._fd, cluster_id=cluster_id, directory_id=directory_id, node_id=self._node_id
                )
            except OSError as error:
                raise unusable(self._path, error) from error
            self._identity = {"cluster.id": cluster_id}

    def last_lease(self) -> LeaseId | None:
        """The lease of the last process that ran on this directory, if it is known."""
        try:
            fields = json.loads((self._path / SESSION).read_bytes())
            return LeaseId(int(fields["lease"], 16)) if fields["inode"] == self._inode() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # without it, the next start waits until the session has ended

    def keep_lease(self, lease_id: LeaseId) -> None:
        text = json.dumps({"inode": self._inode(), "lease": f"{lease_id:x}"})
        replace_file(self._path / SESSION, text.encode(), self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _inode(self) -> int:
        return os.fstat(self._fd).st_ino

    def _checked_identity(self) -> dict[str, str]:
        identity = read_meta_properties(self._path / "meta.properties")
        if (self._path / JOURNAL).exists():
            raise StoreError(
                f"{self._path} holds the metadata of a broker without a cluster ({JOURNAL}); use an empty data "
                "directory, or remove metadata.store"
            )
        node_id = identity.get("node.id")
        if node_id is not None and node_id != str(self._node_id):
            raise StoreError(
                f"{self._path} belongs to node {node_id}, not to node {self._node_id}; set node.id={node_id}, or use "
                "another data directory"
            )
        return identity
