"""The protocol between tasks, the commit and the driver's row receiver, over a socket that only this user can open.

    task:    BeginRows, then a frame for each Arrow batch, then an empty frame. Answered after the first and the last.
    commit:  CommitBatch, or AbortBatch. Answered once.

An answer is None, or the TableSinkError that the client raises. A connection that ends early means a failed task.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.pipeline.sinks.table.errors import StagingLost, TableSinkError
from penstock.pipeline.sinks.table.task_output import TaskOutput

_LENGTH: Final = struct.Struct("<Q")
_END: Final = b""


@dataclass(frozen=True, slots=True)
class BeginRows:
    """A task of this attempt of a batch begins to send its rows."""

    attempt: str
    task: int


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """All tasks of this attempt have succeeded, with these outputs: commit the batch."""

    attempt: str
    batch_id: int
    outputs: Sequence[TaskOutput]


@dataclass(frozen=True, slots=True)
class AbortBatch:
    """This attempt has failed: roll it back."""

    attempt: str


Message = BeginRows | CommitBatch | AbortBatch


# In the processes of Spark


def stream_rows(path: str, begin: BeginRows, batches: Iterator[Any]) -> int:
    """Sends a task's rows, and returns how many they were when all of them are in the batch's transaction."""
    rows = 0
    with _connected(path) as connection:
        send_message(connection, begin)
        _raise_failure(connection)
        try:
            for batch in batches:
                _send_frame(connection, batch.serialize())
                rows += batch.num_rows
            _send_frame(connection, _END)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer says why the receiver closed the connection
        _raise_failure(connection)
    return rows


def ask(path: str, message: CommitBatch | AbortBatch) -> None:
    with _connected(path) as connection:
        send_message(connection, message)
        _raise_failure(connection)


def _connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError as failure:
        connection.close()
        raise StagingLost(f"the driver takes no rows ({failure.strerror}); the batch runs again") from None
    return connection


def _raise_failure(connection: socket.socket) -> None:
    try:
        answer = receive_message(connection)
    except (EOFError, ConnectionError):
        raise StagingLost("the driver has given up the batch's transaction; the batch runs again") from None
    if isinstance(answer, TableSinkError):
        raise answer


# On both sides


def send_message(connection: socket.socket, message: Message | TableSinkError | None) -> None:
    _send_frame(connection, pickle.dumps(message))


def receive_message(connection: socket.socket) -> Any:
    """Raises EOFError when the other side is gone."""
    # Both sides are ours, and the directory of the socket is closed to everybody else.
    return pickle.loads(_receive_frame(connection))  # noqa: S301


def received_batches(connection: socket.socket, schema: Any) -> Iterator[Any]:
    while (frame := _receive_frame(connection)).size:
        yield pa.ipc.read_record_batch(frame, schema)


def _send_frame(connection: socket.socket, content: Any) -> None:
    view = memoryview(content)
    connection.sendall(_LENGTH.pack(view.nbytes))
    connection.sendall(view)


def _receive_frame(connection: socket.socket) -> Any:
    head = bytearray(_LENGTH.size)
    _fill(connection, memoryview(head))
    frame = pa.allocate_buffer(_LENGTH.unpack(head)[0])
    _fill(connection, memoryview(frame))
    return frame


def _fill(connection: socket.socket, room: memoryview) -> None:
    while room.nbytes:
        received = connection.recv_into(room, 0, socket.MSG_WAITALL)
        if not received:
            raise EOFError
        room = room[received:]
