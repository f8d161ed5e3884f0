"""Compiles the kernels of this package, and names the types of their signatures.

Kernels are compiled for fixed signatures when their module is imported: this takes seconds on the first import on a
machine, and a fraction of a second from numba's cache afterwards. The cache is in NUMBA_CACHE_DIR if that is set, and
otherwise in the directory of `keep_compiled_in` (`pipeline/kernel_cache.py` chooses the user's). Where that is not
writable, numba looks for another directory, and without one every process compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

import numba

INT: Final[Any] = numba.types.int64
FLAG: Final[Any] = numba.types.boolean
NOTHING: Final[Any] = numba.types.void

# Input arrays may be in read-only memory, such as bytes objects; their types must allow that.
BYTES_IN: Final = numba.types.Array(numba.types.uint8, 1, "C", readonly=True)
INT32S_IN: Final = numba.types.Array(numba.types.int32, 1, "C", readonly=True)
INT64S_IN: Final = numba.types.Array(numba.types.int64, 1, "C", readonly=True)
BYTES_OUT: Final = numba.types.Array(numba.types.uint8, 1, "C")
INT32S_OUT: Final = numba.types.Array(numba.types.int32, 1, "C")
INT64S_OUT: Final = numba.types.Array(numba.types.int64, 1, "C")

BINARY_OUT: Final = (FLAG, INT32S_OUT, BYTES_OUT, BYTES_OUT)  # whether it is wanted, offsets, content, validity
BINARY_IN: Final = (INT64S_IN, INT64S_IN, BYTES_IN)  # start and length (-1: null) of each row, content

_config: Final[Any] = numba.config
_chosen: Final = {"directory": ""}
_njit: Final[Any] = numba.njit
_uniform_tuple: Final[Any] = numba.types.UniTuple
_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(signature: Any) -> Callable[[_Function], _Function]:
    """Compiles immediately, or loads from the cache."""

    def compile_function(function: _Function) -> _Function:
        try:
            with _own_cache():
                return cast(_Function, _njit(signature, cache=True, nogil=True, boundscheck=False)(function))
        except RuntimeError:  # numba found no writable cache directory
            return cast(_Function, _njit(signature, nogil=True, boundscheck=False)(function))

    return compile_function


def keep_compiled_in(directory: str) -> None:
    """The cache of kernels that are compiled from now on, unless NUMBA_CACHE_DIR is set. Empty leaves it to numba."""
    _chosen["directory"] = directory


@contextmanager
def _own_cache() -> Iterator[None]:
    """For the kernels of this package only: the setting belongs to the process, which may have kernels of its own."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = before or _chosen["directory"]
    try:
        yield
    finally:
        _config.CACHE_DIR = before


def inlined(function: _Function) -> _Function:
    """Inlines the function into every kernel that calls it."""
    return cast(_Function, _njit(inline="always", nogil=True, boundscheck=False)(function))


def integers(count: int) -> Any:
    """The return type of a kernel that returns `count` integers."""
    return _uniform_tuple(INT, count)
