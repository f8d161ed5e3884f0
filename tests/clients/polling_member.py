"""A member of a group for the clients whose consumer is polled: one thread each, and only that thread touches it.

Owns the thread and what was seen; an adapter owns the consumer. Invariant: a consumer is created, polled and closed in
its own thread, since not every client's consumer may be shared.
"""

from __future__ import annotations

import copy
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final

from tests.clients.group_interface import GroupMember, MemberState, Received
from tests.clients.interface import REQUEST_TIMEOUT_S

POLL_TIMEOUT_S: Final = 0.1


class PollingMember(GroupMember):
    def __init__(self) -> None:
        self._seen = MemberState()
        self._lock = threading.Lock()
        self._tasks: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._closing = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._live, name="group-member", daemon=True)
        self._thread.start()

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _poll(self) -> Iterable[Received]: ...

    @abstractmethod
    def _commit(self, offsets: dict[int, int]) -> None: ...

    @abstractmethod
    def _leave(self) -> None: ...

    def state(self) -> MemberState:
        if self._failure is not None:
            raise self._failure
        with self._lock:
            return copy.deepcopy(self._seen)

    def commit(self) -> None:
        self.in_its_thread(lambda: self._commit(self._seen.next_offsets()))

    def close(self) -> None:
        self._closing.set()
        self._thread.join(REQUEST_TIMEOUT_S)
        assert not self._thread.is_alive(), "the member did not end"
        if self._failure is not None:
            raise self._failure

    def in_its_thread(self, task: Callable[[], Any]) -> Any:
        answer: Future[Any] = Future()
        self._tasks.put((task, answer))
        return answer.result(REQUEST_TIMEOUT_S)

    def _rebalanced(self, kind: str, partitions: Iterable[Any]) -> None:
        with self._lock:
            self._seen.rebalance(kind, frozenset(each.partition for each in partitions))

    def _live(self) -> None:
        try:
            self._open()
            try:
                while not self._closing.is_set():
                    self._run_tasks()
                    received = list(self._poll())
                    with self._lock:
                        self._seen.received += received
            finally:
                self._leave()
        except BaseException as failure:
            self._failure = failure

    def _run_tasks(self) -> None:
        while True:
            try:
                task, answer = self._tasks.get_nowait()
            except Empty:
                return
            try:
                answer.set_result(task())
            except BaseException as failure:
                answer.set_exception(failure)
