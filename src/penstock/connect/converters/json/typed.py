"""Objects of JSON by their fields: no dict is made of an object whose fields are known.

Half of the time of reading JSON is spent on dicts: on making them, on looking into them, and on the collector of
garbage, which follows them. msgspec decodes straight into classes with fixed fields, which cost a fraction.

Owns those classes. They belong to the process, not to a converter, which is pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

_CACHED: Final = 256
_CHUNK: Final = 512


class Columns(NamedTuple):
    """`values[n]` has the values of field n, for the payloads `fine`. `others` are the payloads that are different."""

    values: list[list[Any]]
    fine: list[int]
    others: list[int]


def columns_of(names: tuple[str, ...], payloads: Sequence[bytes], *, exactly: bool) -> Columns:
    """The values of each field. A field that is missing is null.

    `exactly`: of objects that have these fields, and no others. A payload that is different takes its neighbours to the
    others with it.
    """
    decode = _decoder(names, exactly)
    if decode is None:
        return Columns([[] for _ in names], [], list(range(len(payloads))))
    objects: list[Any] = []
    fine: list[int] = []
    others: list[int] = []
    for start in range(0, len(payloads), _CHUNK):
        chunk = payloads[start : start + _CHUNK]
        rows = range(start, start + len(chunk))
        try:
            objects += map(decode, chunk)
            fine += rows
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            del objects[len(fine) :]
            others += rows
    return Columns([list(map(attrgetter(f"f{number}"), objects)) for number in range(len(names))], fine, others)


@lru_cache(_CACHED)
def _decoder(names: tuple[str, ...], exactly: bool) -> Callable[[bytes], Any] | None:
    default: tuple[Any, ...] = () if exactly else (None,)
    fields: list[Any] = [(f"f{number}", Any, *default) for number in range(len(names))]
    renamed = {f"f{number}": name for number, name in enumerate(names)}
    try:
        kind = msgspec.defstruct("Object", fields, rename=renamed, gc=False, forbid_unknown_fields=exactly)
    except ValueError:
        return None  # a name that msgspec does not take: with a quote, for example
    return msgspec.json.Decoder(kind).decode
