"""Ways to spoil a request's bytes, each drawn from a seeded `Random`, so that a seed always spoils alike."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tests.robustness.fuzz_corpus import SERVED, extremes

Mutation = Callable[[bytearray, Random, Sequence[bytes]], None]

_HEADER_BYTES: Final = 10


def mutated(frame: bytes, chance: Random, corpus: Sequence[bytes]) -> bytes:
    """The frame after one or two mutations."""
    out = bytearray(frame)
    for _ in range(chance.choice((1, 1, 1, 2))):
        chance.choice(MUTATIONS)(out, chance, corpus)
    return bytes(out)


def _flip_bits(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    for _ in range(chance.choice((1, 1, 2, 8))):
        if out:
            out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)


def _flip_bits_of_body(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    if len(out) > _HEADER_BYTES + 12:
        out[chance.randrange(_HEADER_BYTES + 12, len(out))] ^= 1 << chance.randrange(8)


def _truncate(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    if out:
        del out[chance.randrange(len(out)) :]


def _append(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    out += chance.randbytes(chance.choice((1, 4, 100)))


def _put_extreme(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    if out:
        piece = extremes(chance)
        at = chance.randrange(len(out))
        out[at : at + len(piece)] = piece


def _duplicate_part(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    if out:
        start = chance.randrange(len(out))
        part = out[start : start + chance.choice((1, 2, 4, 16, 200))]
        at = chance.randrange(len(out) + 1)
        out[at:at] = part * chance.choice((1, 1, 2, 20))


def _remove_part(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    if out:
        start = chance.randrange(len(out))
        del out[start : start + chance.choice((1, 2, 4, 16))]


def _splice(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    """The beginning of one request and the end of another."""
    other = chance.choice(corpus)
    cut = chance.randrange(len(out) + 1)
    out[cut:] = other[min(cut, len(other)) :] if chance.random() < 0.5 else other[chance.randrange(len(other)) :]


def _change_version(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    if len(out) >= 4:
        versions = (chance.randrange(20), -1, 32767)
        struct.pack_into(">h", out, 2, chance.choice(versions))


def _change_api(out: bytearray, chance: Random, corpus: Sequence[bytes]) -> None:
    """To another API that is served, with the body of this one; now and then to one that is not."""
    if len(out) >= 4:
        api_key, version = chance.choice(SERVED)
        if chance.random() < 0.1:
            api_key = chance.choice((-1, 4, 7, 11, 93, 32767))
        struct.pack_into(">hh", out, 0, api_key, version)


MUTATIONS: Final[Sequence[Mutation]] = (
    _flip_bits,
    _flip_bits_of_body,
    _flip_bits_of_body,
    _truncate,
    _append,
    _put_extreme,
    _put_extreme,
    _duplicate_part,
    _remove_part,
    _splice,
    _change_version,
    _change_api,
)
