"""Starts and stops connectors on this worker until what runs is what should: one thread compares, again and again.

Owns the executions of this worker, and the statuses of connectors that it owns and does not run: PAUSED, STOPPED,
UNASSIGNED. It must not know how a change came about; it looks at the view and at the ownership whenever either changes.

Invariants:
- A connector starts only while this worker owns it, and only when its earlier execution on this worker has ended.
- The thread never waits for a broker, so executions are told to stop when the lease ends, whatever else happens.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from penstock.connect.herder.execution import ConnectorExecution, WorkerParts
from penstock.connect.herder.ownership import Ownership
from penstock.connect.runtime.runner import State
from penstock.connect.storage.config_records import RestartRequest
from penstock.connect.storage.status_records import Status, TopicUse

_log = logging.getLogger(__name__)

_LOOK_INTERVAL_S: Final = 1.0
_STOP_TIMEOUT_S: Final = 30.0


class Executions:
    def __init__(self, parts: WorkerParts, ownership: Ownership) -> None:
        self._parts = parts
        self._ownership = ownership
        self._running: dict[str, ConnectorExecution] = {}
        self._restarts: dict[str, RestartRequest] = {}
        self._idle: dict[str, tuple[str, int]] = {}  # owned and not running: target and generation of its status
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="executions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops everything that runs, and waits for it."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join()
        with self._lock:
            running = list(self._running.values())
        for execution in running:
            execution.stop()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for execution in running:
            if not execution.join(max(deadline - time.monotonic(), 0)):
                _log.warning("connector %s does not stop", execution.name)
            elif not execution.has_failed:
                self._put_unassigned(execution.name)

    def look(self) -> None:
        """Something changed."""
        self._wake.set()

    def restart(self, request: RestartRequest) -> None:
        with self._lock:
            if self._ownership.owns(request.name, time.monotonic()):
                self._restarts[request.name] = request
        self.look()

    def is_released(self, partitions: frozenset[int]) -> bool:
        """Whether nothing of these partitions runs, and all has been said about it."""
        with self._lock, self._parts.view_lock:
            running = [name for name, each in self._running.items() if each.is_alive]
            names = {*running, *self._idle, *self._parts.view.names()}
        concerned = [name for name in names if self._ownership.partition_of(name) in partitions]
        return not any(name in running or not self._parts.statuses.is_settled(name) for name in concerned)

    def is_running(self, name: str) -> bool:
        with self._lock:
            execution = self._running.get(name)
            return execution is not None and execution.is_alive

    # In the thread

    def _run(self) -> None:
        while not self._is_stopping:
            remaining_s = self._ownership.lease_until - time.monotonic()
            self._wake.wait(min(_LOOK_INTERVAL_S, remaining_s) if remaining_s > 0 else _LOOK_INTERVAL_S)
            self._wake.clear()
            self._look_at_all()

    def _look_at_all(self) -> None:
        with self._lock, self._parts.view_lock:
            names = {*self._parts.view.names(), *self._running, *self._idle, *self._parts.view.names_with_status()}
            for name in sorted(names):
                if not self._is_stopping:
                    self._look_at(name)
        self._ownership.wake()

    def _look_at(self, name: str) -> None:
        view = self._parts.view
        config, target = view.config(name), view.target(name)
        is_owned = self._ownership.owns(name, time.monotonic())
        should_run = is_owned and config is not None and target == "STARTED"
        execution = self._running.get(name)
        if execution is not None and self._goes_on(execution, config, should_run):
            return
        if execution is not None:
            del self._running[name]
            if not is_owned:
                self._moved_away(execution)
        if not is_owned:
            self._idle.pop(name, None)
            self._restarts.pop(name, None)
        elif should_run:
            assert config is not None
            self._start(name, config)
        else:
            self._settle(name, config, target)

    def _goes_on(self, execution: ConnectorExecution, config: Mapping[str, str] | None, should_run: bool) -> bool:
        """Whether nothing is to be done about it, now: it runs as it should, is about to end, or has failed."""
        restart = self._restarts.get(execution.name)
        if restart is not None and not self._applies(restart, execution):
            del self._restarts[execution.name]
            restart = None
        is_current = should_run and execution.config == config and restart is None
        if not execution.is_alive:
            return is_current and execution.has_failed
        if not is_current and not execution.is_stopping:
            if restart is not None:
                self._put_restarting(execution.name)
            execution.stop()
        return True

    def _applies(self, restart: RestartRequest, execution: ConnectorExecution) -> bool:
        if execution.is_stopping:
            return True  # it is on its way
        status = self._parts.view.status(execution.name)
        has_connector_failed = status is not None and status.state is State.FAILED
        if execution.has_failed:
            # Without its tasks, only the connector itself restarts; that its tasks have failed stays as it is.
            return restart.include_tasks or has_connector_failed
        return not restart.only_failed

    def _start(self, name: str, config: Mapping[str, str]) -> None:
        self._restarts.pop(name, None)
        self._idle.pop(name, None)
        execution = ConnectorExecution(
            self._parts,
            name,
            config,
            self._ownership.generation,
            lambda: not self._is_stopping and self._ownership.owns(name, time.monotonic()),
            self.look,
        )
        self._running[name] = execution
        execution.start()

    def _settle(self, name: str, config: Mapping[str, str] | None, target: str) -> None:
        """Owned, and nothing of it runs: what REST shows of it says so."""
        self._restarts.pop(name, None)
        view, statuses = self._parts.view, self._parts.statuses
        if config is None:
            self._idle.pop(name, None)
            gone = [Status(name, task, State.DESTROYED) for task in view.statuses(name)]
            statuses.put(*gone, *(TopicUse(name, topic) for topic in view.topics(name)))
            return
        if self._idle.get(name) == (target, self._ownership.generation):
            return
        self._idle[name] = (target, self._ownership.generation)
        state = State[target]
        statuses.put(self._status(name, None, state))
        if state is State.STOPPED:
            tasks = [task for task in view.statuses(name) if task is not None]
            statuses.put(*(Status(name, task, State.DESTROYED) for task in tasks))
        else:
            statuses.put(*(self._status(name, task, state) for task in range(len(view.task_configs(name)))))

    def _moved_away(self, execution: ConnectorExecution) -> None:
        """A worker that was expelled says nothing more: another one may have begun already."""
        is_member = time.monotonic() < self._ownership.lease_until
        self._parts.statuses.forget(execution.name, also_waiting=not is_member)
        if is_member and not execution.has_failed:
            self._put_unassigned(execution.name)

    def _put_unassigned(self, name: str) -> None:
        with self._parts.view_lock:
            tasks = list(self._parts.view.statuses(name))
        self._parts.statuses.put(*(self._status(name, task, State.UNASSIGNED) for task in tasks))

    def _put_restarting(self, name: str) -> None:
        tasks = [None, *range(len(self._parts.view.task_configs(name)))]
        self._parts.statuses.put(*(self._status(name, task, State.RESTARTING) for task in tasks))

    def _status(self, name: str, task: int | None, state: State) -> Status:
        config = self._parts.view.config(name)
        return Status(
            name,
            task,
            state,
            worker_id=self._parts.worker_id,
            generation=self._ownership.generation,
            version=None if config is None else self._parts.connector_version(config),
        )
