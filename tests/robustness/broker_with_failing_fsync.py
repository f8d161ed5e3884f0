"""`penstock broker`, on a disk whose fsync fails as long as the file in FSYNC_FAILS_WHILE exists.

A process of its own, so that everything but the one system call is the real thing.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

TRIGGER: Final = "FSYNC_FAILS_WHILE"

_sync_data = os.fdatasync


def _failing_sync_data(descriptor: int) -> None:
    if os.path.exists(os.environ[TRIGGER]):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    _sync_data(descriptor)


if __name__ == "__main__":
    os.fdatasync = _failing_sync_data  # type: ignore[assignment]
    from penstock.cli.main import main

    sys.exit(main())
