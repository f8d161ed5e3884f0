"""Arbitrary messages of every API and version, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from typing import Any, TypeVar

from penstock.protocol.codec import request_class, response_class
from penstock.protocol.definitions.index import APIS
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.schema import BOOL, BYTES, FLOAT64, RECORDS, STRING, UUID, Field, Message, Primitive, Struct

OTHER_MESSAGES = {
    "request_header": "RequestHeader",
    "response_header": "ResponseHeader",
    "consumer_protocol_assignment": "ConsumerProtocolAssignment",
    "consumer_protocol_subscription": "ConsumerProtocolSubscription",
    "end_txn_marker": "EndTxnMarker",
}
S = TypeVar("S", bound=Struct)
# As varints, and with the one that null takes, these lie on both sides of where a second byte is needed.
LENGTHS = (0, 1, 5, 126, 127, 300)
ERROR_CODES = [int(code) for code in ErrorCode]


def every_message() -> list[type[Message]]:
    classes = [find(key) for key in APIS for find in (request_class, response_class)]
    for module, name in OTHER_MESSAGES.items():
        classes.append(getattr(import_module(f"penstock.protocol.definitions.{module}"), name))
    return classes


def versions_of(cls: type[Message]) -> Iterator[int]:
    first, last = cls.VERSIONS
    yield from range(first, last + 1)


def flexible_versions_of(cls: type[Message]) -> list[int]:
    return [version for version in versions_of(cls) if version >= cls.FLEXIBLE_SINCE]


def seeded(cls: type[Message], version: int, round_: int = 0) -> random.Random:
    """The same instances in every run, and other ones for each message, version and round."""
    return random.Random(f"{cls.__name__} v{version} #{round_}")


def arbitrary(cls: type[S], version: int, chance: random.Random, depth: int = 0) -> S:
    """An instance with arbitrary values in the fields that this version has, and defaults in the others."""
    values = {
        name: _arbitrary_field(name, field, version, chance, depth)
        for name, field in cls.FIELDS.items()
        if field.exists_in(version) and not (field.tag is not None and chance.random() < 0.5)
    }
    return cls(**values)


def _arbitrary_field(name: str, field: Field, version: int, chance: random.Random, depth: int) -> Any:
    if field.nullable_in(version) and chance.random() < 0.25:
        return None
    if field.is_array:
        count = chance.choice((0, 1, 1, 2, 3) if depth < 2 else (0, 1, 2))
        return [_arbitrary_value(name, field.kind, version, chance, depth) for _ in range(count)]
    value = _arbitrary_value(name, field.kind, version, chance, depth)
    if field.tag is not None and not isinstance(field.kind, Primitive) and value == field.kind():
        return None
    if field.default == -1 and chance.random() < 0.25:
        return -1
    return value


def _arbitrary_value(
    name: str, kind: Primitive | type[Struct], version: int, chance: random.Random, depth: int
) -> object:
    if not isinstance(kind, Primitive):
        return arbitrary(kind, version, chance, depth + 1)
    if name.endswith("error_code"):
        return chance.choice(ERROR_CODES)
    if kind is BOOL:
        return chance.random() < 0.5
    if kind is FLOAT64:
        return chance.uniform(-1e9, 1e9)
    if kind is UUID:
        return chance.choice((bytes(16), chance.randbytes(16)))
    if kind is STRING:
        return "".join(chance.choice("abcxyz.-_09äß€😀") for _ in range(chance.choice(LENGTHS)))
    if kind in (BYTES, RECORDS):
        return chance.randbytes(chance.choice((*LENGTHS, 20_000 if kind is RECORDS and depth < 3 else 0)))
    if kind.size == 8 and name.endswith("_ms"):
        return chance.randrange(2**35) * 1000  # a time that kio, which goes through floats, reads exactly
    bits = 8 * kind.size
    low, high = (0, 2**bits) if kind.format.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return chance.choice((low, high - 1, 0, 1, chance.randrange(low, high)))
