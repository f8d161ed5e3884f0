"""A broker on a disk that can be told to wait or to fail.

`FaultyDiskBroker` is the test's side. The process is this module, run with a control directory as its first argument.

Every fsync of the process writes one byte to the file `count` there. While the file `held` exists, an fsync does not
end; while `error` exists, it fails. The rest of the broker is the real one.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

POLL_S = 0.005
PATIENCE_S = 60
ROOT = Path(__file__).parents[3]


class FaultyDiskBroker:
    def __init__(self, directory: Path) -> None:
        self._control = directory / "control"
        self._control.mkdir()
        command = [sys.executable, "-m", "tests.integration.broker.faulty_disk_broker", str(self._control), "broker"]
        self.process = subprocess.Popen(
            [*command, "--json", "--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        self.bootstrap_servers = f"127.0.0.1:{json.loads(self.process.stdout.readline())['port']}"

    @property
    def fsyncs(self) -> int:
        count = self._control / "count"
        return count.stat().st_size if count.exists() else 0

    def hold(self) -> None:
        (self._control / "held").touch()

    def release(self) -> None:
        (self._control / "held").unlink()

    def await_fsyncs(self, count: int) -> None:
        """That many have begun since the start."""
        deadline = time.monotonic() + PATIENCE_S
        while self.fsyncs < count:
            assert time.monotonic() < deadline, f"{self.fsyncs} fsyncs, {count} were expected"
            time.sleep(POLL_S)

    def break_down(self) -> None:
        (self._control / "error").touch()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def _faulty(sync: Callable[[int], None], control: Path) -> Callable[[int], None]:
    def faulty_sync(fd: int) -> None:
        with (control / "count").open("ab") as count:
            count.write(b".")
        while (control / "held").exists():
            time.sleep(POLL_S)
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
