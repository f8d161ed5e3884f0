"""Debezium's ExtractNewRecordState: a change event becomes the row after the change.

Understands the properties of Debezium 3 (`delete.tombstone.handling.mode`), and those of Debezium 1 and 2
(`drop.tombstones`, `delete.handling.mode`) where the former is not given. Fields named by a header
(`drop.fields.header.name`) are not supported, and refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import one_of, parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import STRING, Field, Schema, Type
from penstock.connect.transforms.debezium.envelope import field_of_type, is_blank, is_envelope, optional, state
from penstock.connect.transforms.headers import NO_FIELD
from penstock.connect.transforms.insert_field import InsertFieldValue
from penstock.connect.transforms.java.values import NULL_POINTER
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    Rows,
    all_failed,
    check_field,
    members,
    merge,
    repeat,
    require_struct,
    split,
    struct_column,
    struct_schema,
)
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT

_PURPOSE: Final = "source field insertion"
_MODES: Final = {
    "drop": ("drop", False),
    "tombstone": ("null", False),
    "rewrite": ("rewrite", False),
    "rewrite-with-tombstone": ("rewrite", True),
    "delete-to-tombstone": ("tombstone", False),
}
"""What becomes of a delete event, and whether the tombstone behind it is kept."""
_LEGACY_MODES: Final = {"drop": "drop", "none": "null", "rewrite": "rewrite"}
_TRANSACTION_FIELDS: Final = ("id", "data_collection_order", "total_order")
_ENVELOPE_FIELDS: Final = ("op", "ts_ms", "ts_us", "ts_ns")


@dataclass(frozen=True, slots=True)
class _Reference:
    """A field of the event that becomes a field or a header: `op`, `source.ts_ms`, `table:TABLE`."""

    struct: str | None
    field: str
    name: str

    @classmethod
    def parse(cls, prefix: str, text: str) -> _Reference:
        path, *aliases = text.strip().split(":")
        if len(aliases) > 1:
            raise ConfigException(f"Unexpected field name: {text.strip()}")
        first, _, second = path.partition(".")
        if second:
            return cls(first, second.partition(".")[0], prefix + (aliases[0] if aliases else f"{first}_{second}"))
        if first in _TRANSACTION_FIELDS:
            struct: str | None = "transaction"
        else:
            struct = None if first in _ENVELOPE_FIELDS else "source"
        return cls(struct, first, prefix + (aliases[0] if aliases else first))

    def read(self, event: Column) -> Column | None:
        """None if the event has no such field."""
        assert event.schema is not None
        parent = event
        if self.struct is not None:
            found = event.schema.field(self.struct)
            if found is None:
                raise RecordError(NO_FIELD, NULL_POINTER)
            parent = Column(found.schema, members(event.values)[self.struct])
        assert parent.schema is not None
        for column in (parent, event):
            assert column.schema is not None
            field = column.schema.field(self.field)
            if field is not None:
                values = members(column.values)[self.field]
                if column is event and parent is not event:
                    values = pc.if_else(parent.values.is_valid(), values, pa.nulls(len(values), values.type))
                return Column(optional(field.schema), values)
        return None


def _text(name: str, default: Any, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, Importance.LOW, doc)


class ExtractNewRecordState(PartTransform):
    part = "value"
    definition = ConfigDef(
        (
            ConfigKey(
                "delete.tombstone.handling.mode",
                ConfigType.STRING,
                "tombstone",
                Importance.MEDIUM,
                "What becomes of delete events and of the tombstones behind them. `drop`: both are dropped. "
                "`tombstone`: the delete event becomes a tombstone. `rewrite`: the delete event becomes the row "
                "before, with `__deleted`. `rewrite-with-tombstone`: the same, and the tombstone stays. "
                "`delete-to-tombstone`: the delete event becomes a tombstone without a schema.",
                one_of(*_MODES, ignore_case=True),
            ),
            ConfigKey(
                "drop.tombstones",
                ConfigType.BOOLEAN,
                default=True,
                importance=Importance.LOW,
                doc="Debezium 1 and 2: whether tombstones are dropped.",
            ),
            ConfigKey(
                "delete.handling.mode",
                ConfigType.STRING,
                "drop",
                Importance.LOW,
                "Debezium 1 and 2: delete events are dropped (`drop`), become null (`none`), or become the row before, "
                "with `__deleted` (`rewrite`).",
                one_of(*_LEGACY_MODES, ignore_case=True),
            ),
            _text("route.by.field", "", "The column whose value is the topic of the record."),
            _text("add.fields.prefix", "__", "What the names of added fields begin with."),
            ConfigKey(
                "add.fields",
                ConfigType.LIST,
                (),
                Importance.LOW,
                "Fields of the event that are added to the row: op, table, source.ts_ms, or table:NAME to rename it.",
            ),
            _text("add.headers.prefix", "__", "What the names of added headers begin with."),
            ConfigKey(
                "add.headers",
                ConfigType.LIST,
                (),
                Importance.LOW,
                "Fields of the event that become headers, written as in `add.fields`.",
            ),
            _text("drop.fields.header.name", None, "Not supported."),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        if values["drop.fields.header.name"]:
            raise ConfigException(
                "The property drop.fields.header.name is not supported; drop the fields with ReplaceField instead",
                "drop.fields.header.name",
            )
        is_legacy = "delete.tombstone.handling.mode" not in config and (
            "drop.tombstones" in config or "delete.handling.mode" in config
        )
        if is_legacy:
            self._on_delete = _LEGACY_MODES[values["delete.handling.mode"].lower()]
            self._keeps_tombstones = not values["drop.tombstones"]
        else:
            self._on_delete, self._keeps_tombstones = _MODES[values["delete.tombstone.handling.mode"].lower()]
        self._route_by: str = values["route.by.field"]
        self._fields = [_Reference.parse(values["add.fields.prefix"], each) for each in values["add.fields"]]
        self._headers = [_Reference.parse(values["add.headers.prefix"], each) for each in values["add.headers"]]
        with_default = str(values["replace.null.with.default"]).lower()
        self._mark = {
            is_deleted: _marker(is_deleted=is_deleted, with_default=with_default) for is_deleted in (True, False)
        }

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        if not self._keeps_tombstones:
            return StepResult(())
        operation = Column(STRING, repeat("d", pa.string(), len(group)))
        added = [(reference.name, operation) for reference in self._headers if reference.field == "op"]
        return StepResult((replace(group, headers=(*group.headers, *added)),))

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        if not is_envelope(column):
            return StepResult((group,))
        require_struct(column, _PURPOSE)
        added = [(reference.name, read) for reference in self._headers if (read := reference.read(column)) is not None]
        group = replace(group, headers=(*group.headers, *added))
        rowless, changes = split(group, state(column, "after").values.is_null())
        deletes = None
        if rowless is not None:
            # A truncation has neither row, and is dropped.
            _truncations, deletes = split(rowless, state(rowless.value, "before").values.is_null())
        results = []
        for piece, unwrap in ((changes, self._change), (deletes, self._delete)):
            if piece is not None:
                try:
                    results.append(unwrap(piece))
                except RecordError as error:
                    results.append(all_failed(piece, error))
        return merge(results)

    def _change(self, group: RecordGroup) -> StepResult:
        after = state(group.value, "after")
        if self._on_delete == "rewrite":
            return self._marked(group, after, is_deleted=False)
        return self._finished(group, group.with_value(after))

    def _delete(self, group: RecordGroup) -> StepResult:
        if self._on_delete == "drop":
            return StepResult(())
        before = state(group.value, "before")
        if self._on_delete == "rewrite":
            return self._marked(group, before, is_deleted=True)
        after = state(group.value, "after")
        if self._on_delete == "tombstone":
            after = Column(None, pa.nulls(len(group)))
        return StepResult((self._routed(group, before).with_value(after),))

    def _marked(self, group: RecordGroup, row: Column, *, is_deleted: bool) -> StepResult:
        """With `__deleted`. Rows that fail there take no further part."""
        marked = self._mark[is_deleted].apply(group.with_value(row))
        results = [StepResult((), marked.failures)]
        for each in marked.groups:
            kept = group.take(pc.index_in(each.rows, group.rows).cast(pa.int64())) if marked.failures else group
            results.append(self._finished(kept, each))
        return merge(results)

    def _finished(self, group: RecordGroup, unwrapped: RecordGroup) -> StepResult:
        try:
            routed = self._routed(unwrapped, unwrapped.value)
            return self._with_fields(group.value, routed)
        except RecordError as error:
            return all_failed(unwrapped, error)

    def _routed(self, group: RecordGroup, row: Column) -> RecordGroup:
        if not self._route_by:
            return group
        topics = field_of_type(row, self._route_by, Type.STRING)
        return replace(group, topic=pc.if_else(is_blank(topics), group.topic, topics))

    def _with_fields(self, event: Column, unwrapped: RecordGroup) -> StepResult:
        row = unwrapped.value
        schema = require_struct(row, _PURPOSE)
        added = {reference.name: read for reference in self._fields if (read := reference.read(event)) is not None}
        rows = Rows(unwrapped)
        columns = members(row.values)
        for field in schema.fields:
            check_field(rows, field, columns[field.name])
        fields = [*schema.fields, *(Field(name, _schema(column)) for name, column in added.items())]
        columns.update({name: column.values for name, column in added.items()})
        changed = struct_column(struct_schema(schema, fields), columns, len(unwrapped))
        return rows.result(unwrapped.with_value(changed))


def _schema(column: Column) -> Schema:
    assert column.schema is not None
    return column.schema


def _marker(*, is_deleted: bool, with_default: str) -> InsertFieldValue:
    marker = InsertFieldValue()
    marker.configure(
        {
            "static.field": "__deleted",
            "static.value": str(is_deleted).lower(),
            "replace.null.with.default": with_default,
        }
    )
    return marker
