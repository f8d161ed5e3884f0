"""The command's side of the engine: finds a living one, hands a pipeline over, relays what it reports.

Imports nothing of Spark: with an engine beside it, `penstock run` never starts one.

Invariant: the pipeline's life is the connection's, so a command that is killed takes its pipeline along.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.protocol import Lines, Message, socket_path
from penstock.pipeline.run_settings import stopping_on_signals

_ANSWER_TIMEOUT_S: Final = 3.0


class EngineLost(RuntimeError):
    """The engine ended while it ran a pipeline of ours."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pipeline ended: an exit code for the command, and one line if there is something to say."""

    exit_code: int
    message: str | None


def find_engine(data_dir: Path) -> int | None:
    """The process id of the engine of this directory, if one lives and answers."""
    try:
        answer = _ask(data_dir, {"do": "ping"}, _ANSWER_TIMEOUT_S)
        return int(answer["engine"]["pid"])
    except (OSError, ValueError, KeyError, TypeError, EngineLost):
        return None


def list_pipelines(data_dir: Path) -> list[dict[str, Any]]:
    """name, pid of the command that asked, seconds since its start, stopping. OSError: there is no engine."""
    pipelines: list[dict[str, Any]] = _ask(data_dir, {"do": "list"}, _ANSWER_TIMEOUT_S)["pipelines"]
    return pipelines


def stop_pipeline(data_dir: Path, name: str) -> bool:
    """Waits until it has ended. False: no such pipeline runs. OSError: there is no engine."""
    return bool(_ask(data_dir, {"do": "stop", "name": name}, None)["stopped"])


class EngineRun:
    """A pipeline that the engine runs for us. Made by `submit`."""

    def __init__(self, connection: socket.socket) -> None:
        self._lines = Lines(connection)

    @classmethod
    def submit(cls, data_dir: Path, name: str, spec: dict[str, Any], options: dict[str, Any]) -> EngineRun:
        """Hands the pipeline over. OSError: there is no engine, or it has just ended; nothing was started."""
        run = cls(_connect(data_dir, None))
        run._lines.send({"do": "run", "name": name, "spec": spec, "options": options, "directory": os.getcwd()})
        return run

    def follow(self, on_event: Callable[[Message], None]) -> Outcome:
        """Relays events until the pipeline has ended. Raises EngineLost when the engine ends first."""
        try:
            for message in self._lines:
                if "event" in message:
                    on_event(message["event"])
                elif "exit" in message:
                    return Outcome(int(message["exit"]), message.get("message"))
                elif "error" in message:
                    return Outcome(int(ExitCode.FAILURE), str(message["error"]))
        finally:
            self._lines.close()
        raise EngineLost("the engine that ran the pipeline has ended; run it again, it goes on from its last commit")

    def request_stop(self) -> None:
        """The engine finishes the batch; `follow` returns when it has. May be called from a signal handler."""
        with contextlib.suppress(OSError):
            self._lines.send({"do": "stop"})


def run_in_engine(
    data_dir: Path, name: str, spec: dict[str, Any], options: dict[str, Any], on_event: Callable[[Message], None]
) -> Outcome:
    """Submits and follows, stopping the pipeline on ctrl-C and SIGTERM. For the main thread of a command."""
    run = EngineRun.submit(data_dir, name, spec, options)
    try:
        with stopping_on_signals(run.request_stop):
            return run.follow(on_event)
    except EngineLost as lost:
        return Outcome(int(ExitCode.ENGINE_LOST), str(lost))


def _connect(data_dir: Path, timeout_s: float | None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(socket_path(data_dir))
    except BaseException:
        connection.close()
        raise
    return connection


def _ask(data_dir: Path, request: Message, timeout_s: float | None) -> dict[str, Any]:
    lines = Lines(_connect(data_dir, timeout_s))
    try:
        lines.send(request)
        for answer in lines:
            return answer
    finally:
        lines.close()
    raise EngineLost("the engine hung up without an answer")
