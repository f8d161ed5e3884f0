"""Decodes and encodes messages with one compiled function per message and version, compiled on first use and cached.

`reader_source.py` and `writer_source.py` generate the functions from the fields in `definitions/`. On a hot path, look
up a reader or writer once and keep it.
"""

from __future__ import annotations

from collections.abc import Sized
from importlib import import_module
from typing import Any, Protocol, TypeVar

from penstock.protocol.definitions.index import APIS
from penstock.protocol.reader_source import compile_reader
from penstock.protocol.schema import Message
from penstock.protocol.writer_source import compile_writer

M = TypeVar("M", bound=Message)
M_co = TypeVar("M_co", bound=Message, covariant=True)
M_contra = TypeVar("M_contra", bound=Message, contravariant=True)


class Reader(Protocol[M_co]):
    def __call__(self, buffer: bytes | bytearray | memoryview, position: int, end: int, /) -> tuple[M_co, int]:
        """(the message, the position after it). Invalid bytes raise ProtocolError.

        `records` are memoryviews of the buffer and valid as long as its content. The caller decides whether bytes may
        be left before `end`.
        """


class Writer(Protocol[M_contra]):
    def __call__(self, out: bytearray, message: M_contra, /) -> None:
        """Appends the message to `out`."""


class SplicingWriter(Protocol[M_contra]):
    def __call__(self, out: bytearray, message: M_contra, splices: list[tuple[int, Sized]], /) -> None:
        """Appends the message without the bytes of its records.

        For each `records` field that is not null, appends its position in `out` and the records to `splices`, in
        ascending order; `out` with all of them inserted is the encoded message.
        """


_readers: dict[tuple[type[Message], int], Any] = {}
_writers: dict[tuple[type[Message], int, bool], Any] = {}


def reader(cls: type[M], version: int) -> Reader[M]:
    compiled: Reader[M] | None = _readers.get((cls, version))
    if compiled is None:
        _require_version(cls, version)
        compiled = _readers[cls, version] = compile_reader(cls, version)
    return compiled


def writer(cls: type[M], version: int) -> Writer[M]:
    compiled: Writer[M] | None = _writers.get((cls, version, False))
    if compiled is None:
        _require_version(cls, version)
        compiled = _writers[cls, version, False] = compile_writer(cls, version, splicing=False)
    return compiled


def splicing_writer(cls: type[M], version: int) -> SplicingWriter[M]:
    compiled: SplicingWriter[M] | None = _writers.get((cls, version, True))
    if compiled is None:
        _require_version(cls, version)
        compiled = _writers[cls, version, True] = compile_writer(cls, version, splicing=True)
    return compiled


def request_class(api_key: int) -> type[Message]:
    """Imports the definitions of the API on first use."""
    api = APIS[api_key]
    return _message_class(api.name, api.request)


def response_class(api_key: int) -> type[Message]:
    """Imports the definitions of the API on first use."""
    api = APIS[api_key]
    return _message_class(api.name, api.response)


def _message_class(module: str, name: str) -> type[Message]:
    cls: type[Message] = getattr(import_module(f"penstock.protocol.definitions.{module}"), name)
    return cls


def _require_version(cls: type[Message], version: int) -> None:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise ValueError(f"{cls.__name__} has versions {first} to {last}, not {version}")
