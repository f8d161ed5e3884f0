"""JsonConverter: JSON with a schema in each record (`schemas.enable`), or without.

Owns the converter and its caches. Envelopes, schemas, values and shapes are in the modules beside it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connect.config.definition import ConfigException
from penstock.connect.converters.converter import ConvertedGroup, Converter, FromTopic, ToTopic
from penstock.connect.converters.header_adapter import AdaptedHeaderConverter
from penstock.connect.converters.json import jackson
from penstock.connect.converters.json.columns import Unusual, array_of, struct_of
from penstock.connect.converters.json.configuration import DEFINITION
from penstock.connect.converters.json.envelopes import Member, Prefixed, opened, opened_leniently, take_prefixed
from penstock.connect.converters.json.jackson import MALFORMED, MISSING, Malformed
from penstock.connect.converters.json.reading import LOGICAL, DataError
from penstock.connect.converters.json.schemas import schema_from_json, schema_to_json
from penstock.connect.converters.json.shapes import sort_by_shape, sort_objects
from penstock.connect.converters.json.typed import columns_of
from penstock.connect.converters.json.writing import DATE_ERROR, NULL_ERROR, JsonWriter
from penstock.connect.converters.properties import parsed
from penstock.connect.data.records import Column, Failure
from penstock.connect.data.schema import Schema, Type

_Rows = NDArray[np.int64]
_PART_ROWS: Final = 512
_PREFIXES_MAX: Final = 16


class _BySchema(NamedTuple):
    """Records that are read one by one, and those that failed, by message and class."""

    members: dict[bytes, list[Member]]
    failed: dict[tuple[str, str], list[int]]

    def fail(self, row: int, error: DataError) -> None:
        self.failed.setdefault((str(error), error.java_class), []).append(row)


class JsonConverter(Converter):
    definition = DEFINITION

    def __init__(self) -> None:
        self.configure({}, is_key=False)

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        values = parsed(self.definition, config, is_key=is_key)
        self._has_schemas: bool = values["schemas.enable"]
        self._cache_size: int = values["schemas.cache.size"]
        self._replace_nulls: bool = values["replace.null.with.default"]
        self._writer = JsonWriter(self._replace_nulls, values["decimal.format"].upper() == "NUMERIC")
        # Both may be emptied at any time.
        self._schemas: OrderedDict[bytes, Schema | DataError | None] = OrderedDict()
        self._schema_texts: OrderedDict[Schema, str] = OrderedDict()
        self._prefixes: OrderedDict[bytes, bytes] = OrderedDict()
        self._fixed_schema = self._schema_content(values["schema.content"])

    def _schema_content(self, text: str | None) -> Schema | None:
        if not text:
            return None
        try:
            return schema_from_json(jackson.decode(text.encode(), exact=True), replace_nulls=self._replace_nulls)
        except Malformed:
            why = "Failed to parse schema in converter config due to serialization error: "
            raise ConfigException(why, "schema.content") from None
        except DataError as error:
            raise ConfigException(str(error), "schema.content") from None

    # Topic to Connect

    def to_connect(self, topics: pa.Array, payloads: pa.Array) -> FromTopic:
        rows = np.arange(len(payloads))
        groups: list[ConvertedGroup] = []
        if payloads.null_count:
            is_null = np.asarray(payloads.is_null())
            groups.append(_nulls(np.flatnonzero(is_null)))
            rows = np.flatnonzero(~is_null)
            payloads = payloads.drop_null()
        if not len(rows):
            return FromTopic(groups)
        if not self._has_schemas:
            converted = _without_schemas(rows, payloads.to_pylist())
        elif self._fixed_schema is not None:
            converted = self._with_fixed_schema(self._fixed_schema, rows, payloads.to_pylist())
        else:
            converted = self._with_schemas(rows, payloads)
        nulls = [each for each in (*groups, *converted.groups) if _is_nulls(each)]
        others = [each for each in converted.groups if not _is_nulls(each)]
        return FromTopic([*others, *_merged_nulls(nulls)], converted.failures)

    def _with_fixed_schema(self, schema: Schema, rows: _Rows, payloads: list[bytes]) -> FromTopic:
        groups, others = self._typed(schema, rows, payloads)
        rows, payloads = rows[others], [payloads[number] for number in others]
        values = jackson.decode_all(payloads)
        failures = _malformed(rows, values)
        members = [
            Member(int(row), value, payload)
            for row, value, payload in zip(rows, values, payloads, strict=True)
            if not isinstance(value, Malformed)
        ]
        group, failed = self._column(schema, members) if members else ([], [])
        return FromTopic(_merged([*groups, *group]), [*failures, *failed])

    def _with_schemas(self, rows: _Rows, payloads: pa.Array) -> FromTopic:
        """Sorts the payloads by the bytes of their schemas."""
        sorted_ = _BySchema({}, {})
        groups: list[ConvertedGroup] = []
        prefix: bytes | None
        for prefix, schema in reversed(list(self._prefixes.items())):
            prefixed, rows, payloads = take_prefixed(rows, payloads, schema, prefix)
            if prefixed is not None:
                self._prefixes.move_to_end(prefix)
                groups += self._prefixed(prefixed, sorted_)
        for learns in chain(repeat(True, _PREFIXES_MAX), repeat(False)):
            if not len(rows):
                break
            count, schema, prefix = self._open_until_prefix(rows.tolist(), payloads, sorted_, learns=learns)
            rows, payloads = rows[count:], payloads.slice(count)
            if prefix is not None:
                prefixed, rows, payloads = take_prefixed(rows, payloads, schema, prefix)
                groups += self._prefixed(prefixed, sorted_)
        return self._finished(groups, sorted_)

    def _open_until_prefix(
        self, rows: Sequence[int], payloads: pa.Array, sorted_: _BySchema, *, learns: bool
    ) -> tuple[int, bytes, bytes | None]:
        """Opens records one by one, until one begins in a way that others may share: how many, its schema, how.

        `learns` is False where too many begin in their own way to look for each.
        """
        for number, (row, payload) in enumerate(zip(rows, payloads, strict=True)):
            try:
                schema, member, prefix = opened(row, payload.as_py())
            except DataError as error:
                sorted_.fail(row, error)
                continue
            sorted_.members.setdefault(schema, []).append(member)
            if learns and prefix is not None and prefix not in self._prefixes:
                _remember(self._prefixes, prefix, schema, _PREFIXES_MAX)
                return number + 1, schema, prefix
        return len(rows), b"", None

    def _prefixed(self, prefixed: Prefixed | None, sorted_: _BySchema) -> list[ConvertedGroup]:
        """Groups of those that are as their schema says; the others are left to be looked at one by one."""
        if prefixed is None:
            return []
        schema = self._schema(prefixed.schema)
        groups: list[ConvertedGroup] = []
        others: Sequence[int] = range(len(prefixed.rows))
        if isinstance(schema, Schema):
            groups, others = self._typed(schema, prefixed.rows, prefixed.contents)
        members = sorted_.members.setdefault(prefixed.schema, [])
        values = jackson.decode_strictly([prefixed.contents[number] for number in others])
        for number, value in zip(others, values, strict=True):
            row = int(prefixed.rows[number])
            if not isinstance(value, Malformed):
                members.append(Member(row, value, prefixed.contents[number]))
                continue
            try:
                its_schema, member, _none = opened_leniently(row, prefixed.record(number))
                sorted_.members.setdefault(its_schema, []).append(member)
            except DataError as error:
                sorted_.fail(row, error)
        return groups

    def _typed(
        self, schema: Schema, rows: _Rows, contents: Sequence[bytes]
    ) -> tuple[list[ConvertedGroup], Sequence[int]]:
        """Groups of records that are as the schema says, and which of `contents` are not in them."""
        if schema.type is not Type.STRUCT or not schema.fields or schema.name in LOGICAL:
            return [], range(len(contents))
        columns = columns_of(tuple(field.name for field in schema.fields), contents, exactly=False)
        groups, others = [], columns.others
        for start, end, array in self._struct_arrays(schema, columns.values, len(columns.fine)):
            fine = columns.fine[start:end]
            if array is None:
                others = [*others, *fine]
            else:
                groups.append(ConvertedGroup(pa.array(rows[fine]), Column(schema, array)))
        return groups, others

    def _struct_arrays(
        self, schema: Schema, columns: Sequence[Sequence[Any]], count: int
    ) -> Iterator[tuple[int, int, pa.Array | None]]:
        """All of them at once, or in parts if some value is unusual; None for a part that has one."""
        if not count:
            return
        try:
            yield 0, count, struct_of(schema, columns, replace_nulls=self._replace_nulls)
        except Unusual:
            for start in range(0, count, _PART_ROWS):
                end = min(start + _PART_ROWS, count)
                try:
                    part = [column[start:end] for column in columns]
                    yield start, end, struct_of(schema, part, replace_nulls=self._replace_nulls)
                except Unusual:
                    yield start, end, None

    def _finished(self, groups: list[ConvertedGroup], sorted_: _BySchema) -> FromTopic:
        failures = [Failure(rows, message, kind) for (message, kind), rows in sorted_.failed.items()]
        for content, members in sorted_.members.items():
            if not members:
                continue
            members.sort(key=itemgetter(0))
            schema = self._schema(content)
            if isinstance(schema, DataError):
                failures.append(Failure([member.row for member in members], str(schema), schema.java_class))
            elif schema is None:
                its = np.array([member.row for member in members])
                groups += _shaped(its, [member.value for member in members])
            else:
                column, its_failures = self._column(schema, members)
                groups += column
                failures += its_failures
        return FromTopic(_merged(groups), failures)

    def _schema(self, content: bytes) -> Schema | DataError | None:
        if content in self._schemas:
            self._schemas.move_to_end(content)
            return self._schemas[content]
        schema: Schema | DataError | None
        try:
            schema = schema_from_json(jackson.decode(content, exact=True), replace_nulls=self._replace_nulls)
        except DataError as error:
            schema = error
        except Malformed:
            schema = DataError(MALFORMED)  # msgspec does not look at the texts of what it leaves raw
        _remember(self._schemas, content, schema, self._cache_size)
        return schema

    def _column(self, schema: Schema, members: Sequence[Member]) -> tuple[list[ConvertedGroup], list[Failure]]:
        def exact(number: int) -> Any:
            member = members[number]
            return member.value if member.content is None else jackson.decode(member.content, exact=True)

        values = [member.value for member in members]
        array, errors = array_of(schema, values, exact, replace_nulls=self._replace_nulls)
        failures: dict[tuple[str, str], list[int]] = {}
        for number, error in errors.items():
            failures.setdefault((str(error), error.java_class), []).append(members[number].row)
        rows = pa.array([member.row for member in members], pa.int64())
        if errors:
            kept = pa.array(np.setdiff1d(np.arange(len(members)), list(errors)))
            rows, array = rows.take(kept), array.take(kept)
        groups = [ConvertedGroup(rows, Column(schema, array))] if len(rows) else []
        return groups, [Failure(its, message, kind) for (message, kind), its in failures.items()]

    # Connect to topic

    def from_connect(self, topics: pa.Array, column: Column) -> ToTopic:
        schema, values = column.schema, column.values
        texts, bad = self._writer.texts(schema, values)
        if self._has_schemas:
            texts = pc.binary_join_element_wise(f'{{"schema":{self._schema_text(schema)},"payload":', texts, "}", "")
        if schema is None and values.null_count:
            texts = pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))
        payloads = texts.cast(pa.binary())
        if bad is None or not bad.any():
            return ToTopic(payloads)
        payloads = pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), payloads)
        message = DATE_ERROR if schema is None else NULL_ERROR
        return ToTopic(payloads, (Failure(np.flatnonzero(bad).tolist(), message),))

    def _schema_text(self, schema: Schema | None) -> str:
        if schema is None:
            return "null"
        if schema not in self._schema_texts:
            text = schema_to_json(schema, self._writer.default_text)
            _remember(self._schema_texts, schema, text, self._cache_size)
        return self._schema_texts[schema]


def _remember(cache: OrderedDict[Any, Any], key: Any, value: Any, size: int) -> None:
    cache[key] = value
    while len(cache) > max(size, 1):
        cache.popitem(last=False)


def _without_schemas(rows: _Rows, payloads: list[bytes]) -> FromTopic:
    first = jackson.decode_strictly(payloads[:1])[0]
    groups: list[ConvertedGroup] = []
    if isinstance(first, dict) and first:
        # Most records look like the first.
        columns = columns_of(tuple(first), payloads, exactly=True)
        if columns.fine:
            typed = rows[columns.fine] if columns.others else rows
            shaped = sort_objects(tuple(first), columns.values)
            groups = [ConvertedGroup(pa.array(typed[each.rows]), Column(None, each.array)) for each in shaped]
        if not columns.others:
            return FromTopic(groups)
        rows, payloads = rows[columns.others], [payloads[number] for number in columns.others]
    values = jackson.decode_all(payloads)
    failures = _malformed(rows, values)
    if failures:
        fine = [number for number, value in enumerate(values) if not isinstance(value, Malformed)]
        rows, values = rows[fine], [values[number] for number in fine]
    groups += _shaped(rows, [None if value is MISSING else value for value in values])
    return FromTopic(_merged(groups), failures)


def _malformed(rows: _Rows, values: Sequence[Any]) -> list[Failure]:
    failed = [int(row) for row, value in zip(rows, values, strict=True) if type(value) is Malformed]
    return [Failure(failed, MALFORMED)] if failed else []


def _shaped(rows: _Rows, values: Sequence[Any]) -> list[ConvertedGroup]:
    """Nulls are a group of their own here: a record without a value is not like one with a value."""
    groups = []
    is_null = np.array([value is None for value in values], np.bool_)
    if is_null.any():
        groups.append(_nulls(rows[is_null]))
        rows, values = rows[~is_null], [value for value in values if value is not None]
    return [
        *(ConvertedGroup(pa.array(rows[each.rows]), Column(None, each.array)) for each in sort_by_shape(values)),
        *groups,
    ]


def _nulls(rows: _Rows) -> ConvertedGroup:
    return ConvertedGroup(pa.array(rows.astype(np.int64)), Column(None, pa.nulls(len(rows))))


def _is_nulls(group: ConvertedGroup) -> bool:
    return group.column.schema is None and pa.types.is_null(group.column.values.type)


def _merged_nulls(groups: Sequence[ConvertedGroup]) -> list[ConvertedGroup]:
    if len(groups) <= 1:
        return list(groups)
    return [_nulls(np.sort(np.concatenate([np.asarray(each.rows) for each in groups])))]


def _merged(groups: Iterable[ConvertedGroup]) -> list[ConvertedGroup]:
    """Different bytes may say the same schema."""
    by_kind: dict[tuple[Schema | None, pa.DataType], list[ConvertedGroup]] = {}
    for group in groups:
        by_kind.setdefault((group.column.schema, group.column.values.type), []).append(group)
    merged = []
    for (schema, _type), its in by_kind.items():
        if len(its) == 1:
            merged += its
            continue
        rows = np.concatenate([np.asarray(each.rows) for each in its])
        order = pa.array(np.argsort(rows, kind="stable"))
        values = pa.concat_arrays([each.column.values for each in its]).take(order)
        merged.append(ConvertedGroup(pa.array(rows).take(order), Column(schema, values)))
    return merged


class JsonHeaderConverter(AdaptedHeaderConverter):
    kind = JsonConverter
