"""How the kernels of this package are compiled, and the words for their signatures.

Kernels are compiled for fixed signatures when their module is imported: seconds on the first import on a machine, a
fraction of one from numba's cache afterwards. numba takes the first of these directories that it can write to:
NUMBA_CACHE_DIR if that is set, `__pycache__` beside the module, the user's cache directory. Where there is none (an
installation that is read-only, for a user without a home), every process compiles for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba

INT: Final[Any] = numba.types.int64
FLAG: Final[Any] = numba.types.boolean
NOTHING: Final[Any] = numba.types.void

# Arrays that a kernel only reads may lie in memory that cannot be written, such as bytes objects; a signature without
# that would refuse them.
BYTES_IN: Final = numba.types.Array(numba.types.uint8, 1, "C", readonly=True)
INT32S_IN: Final = numba.types.Array(numba.types.int32, 1, "C", readonly=True)
INT64S_IN: Final = numba.types.Array(numba.types.int64, 1, "C", readonly=True)
BYTES_OUT: Final = numba.types.Array(numba.types.uint8, 1, "C")
INT32S_OUT: Final = numba.types.Array(numba.types.int32, 1, "C")
INT64S_OUT: Final = numba.types.Array(numba.types.int64, 1, "C")

BINARY_OUT: Final = (FLAG, INT32S_OUT, BYTES_OUT, BYTES_OUT)  # wanted?, offsets, content, validity
BINARY_IN: Final = (INT64S_IN, INT64S_IN, BYTES_IN)  # where each row starts, its length (-1: null), content

_njit: Final[Any] = numba.njit
_uniform_tuple: Final[Any] = numba.types.UniTuple
_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(signature: Any) -> Callable[[_Function], _Function]:
    """Compiles now, from the cache if there is one."""

    def compile_function(function: _Function) -> _Function:
        try:
            return cast(_Function, _njit(signature, cache=True, nogil=True, boundscheck=False)(function))
        except RuntimeError:  # numba found no directory that it may write its cache to
            return cast(_Function, _njit(signature, nogil=True, boundscheck=False)(function))

    return compile_function


def inlined(function: _Function) -> _Function:
    """Becomes part of every kernel that calls it."""
    return cast(_Function, _njit(inline="always", nogil=True, boundscheck=False)(function))


def integers(count: int) -> Any:
    """The type of a kernel that returns so many of them."""
    return _uniform_tuple(INT, count)
