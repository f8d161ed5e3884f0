"""What an engine keeps below a data directory, and who may change it.

    engine.sock            where commands reach the engine
    engine.lock            held by the engine, or by a command that changes desired states while there is none
    engine/pipelines/      one file for each pipeline that the engine keeps running: its desired state
    logs/                  one file for each pipeline: what happened to it

Imports nothing of Spark.

Invariant: one process at a time holds the lock, and the kernel releases it when that process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final, Self

SOCKET_FILE: Final = "engine.sock"
LOCK_FILE: Final = "engine.lock"


class EngineInUse(RuntimeError):
    """Another process has the engine's part of the data directory."""


def socket_path(data_dir: Path) -> str:
    """Where the engine of this directory listens. A symbolic link leads to a shorter path where it must."""
    path = data_dir.absolute() / SOCKET_FILE
    return os.readlink(path) if path.is_symlink() else str(path)


def desired_states_dir(data_dir: Path) -> Path:
    return data_dir / "engine" / "pipelines"


def logs_dir(data_dir: Path) -> Path:
    return data_dir / "logs"


class EngineLock:
    """Held from the construction until `release`. Raises EngineInUse."""

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise EngineInUse(f"another engine runs pipelines for {data_dir}") from None

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.release()
