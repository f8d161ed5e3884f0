"""Records as Debezium's sources write them: envelopes around rows, and types that only they have.

Debezium's own sink takes both, so a configuration for it needs no transform. Owns what an envelope means, and the names
under which dialects know these types. It must not know databases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connectors.jdbc.dialects.dialect import JSON_TEXT, MICRO_TIME, MICRO_TIMESTAMP, UUID_TEXT, ZONED
from penstock.connect.data.records import CONNECT_ERRORS, Column, Failure, RecordGroup, StepResult
from penstock.connect.data.schema import DATE, TIME, TIMESTAMP, Schema, Type

_ENVELOPE: Final = ".Envelope"
_TRUNCATE: Final = "t"
_TYPES: Final = {
    "io.debezium.time.Date": DATE,
    "io.debezium.time.Time": TIME,
    "io.debezium.time.MicroTime": MICRO_TIME,
    "io.debezium.time.Timestamp": TIMESTAMP,
    "io.debezium.time.MicroTimestamp": MICRO_TIMESTAMP,
    "io.debezium.time.ZonedTimestamp": ZONED,
    "io.debezium.data.Json": JSON_TEXT,
    "io.debezium.data.Uuid": UUID_TEXT,
}


def known_type(schema: Schema) -> Schema:
    """A field's schema under the name that dialects know."""
    name = _TYPES.get(schema.name or "")
    return schema if name is None else replace(schema, name=name)


def is_envelope(schema: Schema | None) -> bool:
    return (
        schema is not None
        and schema.type is Type.STRUCT
        and (schema.name or "").endswith(_ENVELOPE)
        and schema.field("op") is not None
        and schema.field("after") is not None
    )


def unwrapped(group: RecordGroup) -> StepResult:
    """The state of each row behind its change; a deletion becomes a tombstone."""
    schema = group.value.schema
    if schema is None or not is_envelope(schema):
        return StepResult([group])
    after = schema.field("after")
    assert after is not None
    failures = []
    there = group.value.values.is_valid()
    is_truncation = pc.fill_null(pc.equal(pc.struct_field(group.value.values, "op"), _TRUNCATE), False)
    if pc.any(is_truncation).as_py():
        failures.append(
            Failure(
                group.rows.filter(is_truncation).to_pylist(),
                "the record empties a table (op=t), which this sink does not do; drop such records with the transform"
                " Filter, or empty the table by hand",
                f"{CONNECT_ERRORS}.ConnectException",
            )
        )
        kept = pc.invert(is_truncation)
        group, there = group.filter(kept), there.filter(kept)
    values = pc.struct_field(group.value.values, "after")
    values = pc.if_else(there, values, pa.scalar(None, values.type)) if values.null_count < len(values) else values
    return StepResult([group.with_value(Column(after.schema.optional(), values))], failures)
