"""The ground that transforms of keys and values stand on: which part of a record, which rows fail, structs by column.

Owns how a transform walks through a group. A transform says what becomes of values that are null and of values that are
not; most of them treat the two differently, so rows are sorted before. It must not know any single transform.

Invariant: a row is in one group of the result, or in one failure, or it was dropped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.data.records import DATA_EXCEPTION, Column, Failure, RecordGroup, StepResult
from penstock.connect.data.schema import Field, Schema, Type
from penstock.connect.transforms.java.values import SCHEMA_BUILDER_EXCEPTION, class_name
from penstock.connect.transforms.transform import Transform

Mask = npt.NDArray[np.bool_]


class RecordError(Exception):
    """No record of the group at hand can be transformed."""

    def __init__(self, message: str, java_class: str = DATA_EXCEPTION) -> None:
        super().__init__(message)
        self.java_class = java_class


class Rows:
    """Which rows of a group are still good, and why the others are not. The first mistake of a row counts."""

    def __init__(self, group: RecordGroup) -> None:
        self._group = group
        self._good: Mask = np.ones(len(group), dtype=np.bool_)
        self._failures: list[Failure] = []

    def fail(self, bad: Mask, message: str, java_class: str = DATA_EXCEPTION) -> None:
        bad = bad & self._good
        if bad.any():
            self._failures.append(Failure(self._group.rows.filter(pa.array(bad)).to_pylist(), message, java_class))
            self._good &= ~bad

    def fail_each(self, bad: Mask, message: Callable[[int], str], java_class: str = DATA_EXCEPTION) -> None:
        """With a message for each index."""
        bad = bad & self._good
        indices = np.flatnonzero(bad).tolist()
        rows = self._group.rows.filter(pa.array(bad)).to_pylist()
        messages: dict[str, list[int]] = {}
        for index, row in zip(indices, rows, strict=True):
            messages.setdefault(message(index), []).append(row)
        self._failures += [Failure(failed, text, java_class) for text, failed in messages.items()]
        self._good &= ~bad

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(self._failures)

    def all_fail(self, error: RecordError) -> StepResult:
        """Those that were still good fail with this."""
        self.fail(np.ones(len(self._good), dtype=np.bool_), str(error), error.java_class)
        return StepResult((), tuple(self._failures))

    def result(self, transformed: RecordGroup) -> StepResult:
        """`transformed` has all rows; those that failed are taken out."""
        if not self._failures:
            return StepResult((transformed,))
        groups = (transformed.filter(pa.array(self._good)),) if self._good.any() else ()
        return StepResult(groups, tuple(self._failures))


def merge(results: Sequence[StepResult]) -> StepResult:
    return StepResult(
        tuple(group for result in results for group in result.groups),
        tuple(failure for result in results for failure in result.failures),
    )


def all_failed(group: RecordGroup, error: RecordError) -> StepResult:
    return StepResult((), (Failure(group.rows.to_pylist(), str(error), error.java_class),))


def split(group: RecordGroup, mask: pa.Array) -> tuple[RecordGroup | None, RecordGroup | None]:
    """Rows for which it is true, and the others. A group that need not be split is not copied."""
    true_count = pc.sum(mask).as_py() or 0
    if true_count == 0:
        return None, group
    if true_count == len(group):
        return group, None
    return group.filter(mask), group.filter(pc.invert(mask))


def split_by_patterns(group: RecordGroup, masks: Sequence[pa.Array]) -> list[RecordGroup]:
    """Groups in each of which every mask is the same for all rows."""
    groups = [group]
    indices = [pa.array(np.arange(len(group), dtype=np.int64))]
    for mask in masks:
        if not 0 < (pc.sum(mask).as_py() or 0) < len(group):
            continue
        halves = []
        for index in indices:
            part = mask.take(index)
            halves += [index.filter(part), index.filter(pc.invert(part))]
        indices = [half for half in halves if len(half)]
    if len(indices) > 1:
        groups = [group.take(index) for index in indices]
    return groups


class PartTransform(Transform):
    """A transform of keys or of values."""

    part: ClassVar[Literal["key", "value"]]

    def column(self, group: RecordGroup) -> Column:
        return group.key if self.part == "key" else group.value

    def with_column(self, group: RecordGroup, column: Column) -> RecordGroup:
        return group.with_key(column) if self.part == "key" else group.with_value(column)

    def apply(self, group: RecordGroup) -> StepResult:
        if len(group) == 0:
            return StepResult((group,))
        nulls, present = split(group, self.column(group).values.is_null())
        results = []
        for piece, transform in ((present, self.apply_present), (nulls, self.apply_null)):
            if piece is not None:
                try:
                    results.append(transform(piece, self.column(piece)))
                except RecordError as error:
                    results.append(all_failed(piece, error))
        return results[0] if len(results) == 1 else merge(results)

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        """All keys or values of the group are null. Most transforms leave such records as they are."""
        return StepResult((group,))

    @abstractmethod
    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        """None of them is null. Raises RecordError where no record of the group can be transformed."""


# What Kafka Connect requires of a value


def require_struct(column: Column, purpose: str) -> Schema:
    if column.schema is None or column.schema.type is not Type.STRUCT:
        found = class_name(column.schema, column.values.type)
        raise RecordError(f"Only Struct objects supported for [{purpose}], found: {found}")
    return column.schema


def require_map(column: Column, purpose: str) -> None:
    if not pa.types.is_struct(column.values.type):
        found = class_name(None, column.values.type)
        raise RecordError(f"Only Map objects supported in absence of schema for [{purpose}], found: {found}")


def null_found(schema: Schema | None, purpose: str) -> RecordError:
    """For transforms that need a struct or a map, and were given null."""
    needed = "Only Map objects supported in absence of schema" if schema is None else "Only Struct objects supported"
    return RecordError(f"{needed} for [{purpose}], found: null")


def fields_of(schema: Schema) -> tuple[Field, ...]:
    if schema.type is not Type.STRUCT:
        raise RecordError("Cannot list fields on non-struct type")
    return schema.fields


# Structs and maps by column


def members(values: pa.StructArray) -> dict[str, pa.Array]:
    """The columns of a struct's fields, or of a map's keys; null where the struct is."""
    return {values.type.field(index).name: child for index, child in enumerate(values.flatten())}


def map_column(columns: Mapping[str, pa.Array], length: int) -> Column:
    """Maps without a schema."""
    fields = [pa.field(name, array.type) for name, array in columns.items()]
    return Column(None, struct_array(pa.struct(fields), list(columns.values()), length))


def struct_array(arrow_type: pa.StructType, children: Sequence[pa.Array], length: int) -> pa.StructArray:
    if not children:
        # `from_arrays` would take the length of its first child.
        return pa.Array.from_buffers(arrow_type, length, [None])
    return pa.StructArray.from_arrays(children, fields=list(arrow_type))


def struct_column(schema: Schema, columns: Mapping[str, pa.Array], length: int) -> Column:
    arrow_type = schema.arrow_type
    return Column(schema, struct_array(arrow_type, [columns[field.name] for field in schema.fields], length))


def repeat(value: object, arrow_type: pa.DataType, length: int) -> pa.Array:
    if pa.types.is_nested(arrow_type):
        return pa.array([value], arrow_type).take(pa.array(np.zeros(length, dtype=np.int64)))
    return pa.repeat(pa.scalar(value, arrow_type), length)


def read_field(field: Field, values: pa.Array, *, with_default: bool) -> pa.Array:
    """As `Struct.get` does, or `Struct.getWithoutDefault`: a null is the default of the field, if it has one."""
    if with_default and field.schema.default is not None and values.null_count:
        default = repeat(field.schema.default, values.type, len(values))
        return pc.if_else(values.is_null(), default, values)
    return values


def check_field(rows: Rows, field: Field, values: pa.Array) -> pa.Array:
    """As `Struct.put` does: null is no value of a field that is required."""
    if not field.schema.is_optional and values.null_count:
        rows.fail(
            values.is_null().to_numpy(zero_copy_only=False),
            f'Invalid value: null used for required field: "{field.name}", schema type: {field.schema.type.name}',
        )
    return values


def duplicate_field(name: str) -> RecordError:
    return RecordError(f"Cannot create field because of field name duplication {name}", SCHEMA_BUILDER_EXCEPTION)


def struct_schema(source: Schema | None, fields: Sequence[Field]) -> Schema:
    """A struct with the name, version, doc and parameters of another; neither optional nor with a default."""
    seen = set()
    for field in fields:
        if field.name in seen:
            raise duplicate_field(field.name)
        seen.add(field.name)
    if source is None:
        return Schema(Type.STRUCT, fields=tuple(fields))
    return replace(source, type=Type.STRUCT, is_optional=False, default=None, fields=tuple(fields))
