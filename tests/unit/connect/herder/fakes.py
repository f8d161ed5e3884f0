"""Fakes of what a herder works with: a runner that records its runs, and plugins without code."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.connect.connector import ConnectError
from penstock.connect.herder.herder import ConnectorType, ConnectRestError, Plugin
from penstock.connect.runtime.runner import Execution, Report, SinkOffsets, SourceOffsets, State

PATIENCE_S = 60.0


def eventually(condition: Any, timeout_s: float = PATIENCE_S, *, pause_s: float = 0.005) -> Any:
    """The first true value of `condition`, asked again and again."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {condition}"
        time.sleep(pause_s)


class FakeRunner:
    """Runs a connector until it is told to stop.

    With a directory, a run holds the lock of its connector's file, whichever process it is in, and appends when it
    began and ended. A killed process loses its locks, as it loses its effects.
    Properties: `tasks.max`, `fail` (connector or task: ends at once with FAILED), `retry`, `topics`, `slow.stop.s`.
    """

    def __init__(self, directory: Path | None = None, label: str = "") -> None:
        self._directory = directory
        self._label = label or str(os.getpid())
        self.running: set[str] = set()
        self.starts: list[str] = []
        self.fenced: list[tuple[str, int]] = []
        self.altered: list[tuple[str, Any]] = []
        self.stored: SinkOffsets | SourceOffsets = {}
        self.unfenceable: Exception | None = None
        self.executions: dict[str, Execution] = {}
        self.repaired = threading.Event()
        """Set: `fail` no longer does."""

    def run(self, execution: Execution) -> None:
        name = execution.name
        descriptor = self._lock(name)
        self.running.add(name)
        self.starts.append(name)
        self.executions[name] = execution
        try:
            self._run(execution)
        finally:
            self.running.discard(name)
            self._unlock(name, descriptor)

    def _run(self, execution: Execution) -> None:
        config = execution.config
        failing = None if self.repaired.is_set() else config.get("fail")
        if failing == "connector":
            execution.report(Report(State.FAILED, trace="it is broken"))
            return
        if failing == "bug":
            raise RuntimeError("a bug of the runner")
        if config.get("retry"):
            details = {"attempt": 1, "cause": "away", "next_attempt_ms": 1}
            execution.report(Report(State.RESTARTING, trace="away", details=details))
        else:
            execution.report(Report(State.RUNNING))
        if failing == "task":
            execution.report(Report(State.FAILED, task=0, trace="its task is broken"))
            return
        if "topics" in config:
            execution.topics_used(config["topics"].split(","))
        execution.stop.wait()
        time.sleep(float(config.get("slow.stop.s", "0")))

    def _lock(self, name: str) -> int:
        if self._directory is None:
            return -1
        descriptor = os.open(self._directory / f"{name}.lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._note(name, "TWICE")
            raise
        self._note(name, "start")
        return descriptor

    def _unlock(self, name: str, descriptor: int) -> None:
        if descriptor >= 0:
            self._note(name, "end")
            os.close(descriptor)

    def _note(self, name: str, what: str) -> None:
        assert self._directory is not None
        with (self._directory / "runs.log").open("a") as log:
            log.write(f"{time.monotonic():.3f} {what} {name} {self._label}\n")

    def task_count(self, name: str, config: Mapping[str, str]) -> int:
        return int(config.get("tasks.max", "1"))

    def fence(self, name: str, config: Mapping[str, str], task_count: int) -> None:
        if self.unfenceable is not None:
            raise self.unfenceable
        self.fenced.append((name, task_count))

    def offsets(self, name: str, config: Mapping[str, str]) -> SinkOffsets | SourceOffsets:
        return self.stored

    def alter_offsets(self, name: str, config: Mapping[str, str], offsets: Any) -> str:
        if config.get("refuses.offsets"):
            raise ConnectError("these offsets make no sense")
        self.altered.append((name, offsets))
        return "altered" if offsets is not None else "reset"


class FakePlugins:
    """Classes whose names contain Source or Sink exist; a config with `invalid` has an error.

    `${x}` is a reference, to `resolved-x`.
    """

    def list_plugins(self, *, connectors_only: bool) -> Sequence[Plugin]:
        connectors = [Plugin("Source", "source", "1"), Plugin("Sink", "sink", "1")]
        return connectors if connectors_only else [*connectors, Plugin("Converter", "converter")]

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        return [{"name": "tasks.max"}]

    def validate(self, plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        if "Source" not in plugin and "Sink" not in plugin:
            raise ConnectRestError(400, f"no class {plugin}")
        errors = [config["invalid"]] if "invalid" in config else []
        values = [{"definition": {}, "value": {"name": "invalid", "errors": errors}}]
        return {"name": plugin, "error_count": len(errors), "groups": [], "configs": values}

    def connector_type(self, config: Mapping[str, str]) -> ConnectorType:
        plugin = config.get("connector.class", "")
        return "source" if "Source" in plugin else "sink" if "Sink" in plugin else "unknown"

    def connector_version(self, config: Mapping[str, str]) -> str | None:
        return "1"

    def resolve(self, config: Mapping[str, str]) -> Mapping[str, str]:
        return {name: value.replace("${x}", "resolved-x") for name, value in config.items()}
