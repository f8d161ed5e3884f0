"""`penstock` with a disk that can be told to be slow or to fail: run as a module, first argument a control directory.

Every fsync of the process writes one byte to the file `count` there. While the file `delay` exists, an fsync takes as
many seconds as it says; while `error` exists, it fails. The rest of the broker is the real one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path


def _faulty(sync: Callable[[int], None], control: Path) -> Callable[[int], None]:
    def faulty_sync(fd: int) -> None:
        with (control / "count").open("ab") as count:
            count.write(b".")
        with contextlib.suppress(FileNotFoundError):
            time.sleep(float((control / "delay").read_text()))
        if (control / "error").exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    return faulty_sync


def main() -> None:
    control = Path(sys.argv.pop(1))
    os.fsync = _faulty(os.fsync, control)  # type: ignore[assignment]
    os.fdatasync = _faulty(os.fdatasync, control)  # type: ignore[assignment]
    # Imported now, so that whoever takes a function of `os` at import time takes the faulty one.
    from penstock.cli.main import main as penstock

    sys.exit(penstock())


if __name__ == "__main__":
    main()
