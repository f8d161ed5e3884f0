"""Java objects as transforms see them, beside `data/java_objects.py`: a Date without schema, the order of a HashMap.

Failures carry Kafka Connect's messages, which name Java classes. It must not know transforms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.connect.data.java_objects import class_of, type_of
from penstock.connect.data.schema import Schema, Type

ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
NULL_POINTER: Final = "java.lang.NullPointerException"
SCHEMA_BUILDER_EXCEPTION: Final = "org.apache.kafka.connect.errors.SchemaBuilderException"
CONNECT_EXCEPTION: Final = "org.apache.kafka.connect.errors.ConnectException"


def schemaless_type(arrow_type: pa.DataType) -> Type | None:
    """What Connect infers from a Java object. None: a java.util.Date, which has no type without a schema."""
    return None if pa.types.is_timestamp(arrow_type) else type_of(arrow_type)


def class_name(schema: Schema | None, arrow_type: pa.DataType) -> str:
    """Of a value that is not null."""
    return class_of(schema, arrow_type)


def schema_text(schema: Schema) -> str:
    """As `Schema.toString` prints it."""
    return f"Schema{{{schema.name}:{schema.type.name}}}" if schema.name is not None else f"Schema{{{schema.type.name}}}"


def hash_order(names: Iterable[str], *, copied: bool = False) -> list[str]:
    """Texts in the order in which a HashMap or HashSet of them is iterated.

    The order decides which of several mistakes in a record is reported. `copied` is for a set made from a collection,
    whose table is sized differently.
    """
    distinct = list(dict.fromkeys(names))
    slots = 16
    wanted = int(len(distinct) / 0.75) + 1 if copied else math.ceil(len(distinct) / 0.75)
    while slots < wanted:
        slots *= 2
    return sorted(distinct, key=lambda name: _spread_hash(name) & (slots - 1))


def _spread_hash(text: str) -> int:
    code = 0
    units = np.frombuffer(text.encode("utf-16-le"), dtype="<u2")
    for unit in units:
        code = (code * 31 + int(unit)) & 0xFFFFFFFF
    return code ^ (code >> 16)
