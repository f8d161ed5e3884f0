"""Where a table stands: positions as Confluent's connector writes them, and the SQL that reads on behind one.

A position is behind a row: its number, its timestamp in microseconds, or both. Owns the form of source partitions and
offsets, and the conditions of queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.connect.connector import SourceOffset, SourcePartition, offset_of
from penstock.connect.connectors.jdbc.dialects.reading import Reading, SourceTable
from penstock.connect.connectors.jdbc.source.definition import Mode, SourceSettings

QUERY: Final[SourcePartition] = {"query": "query"}
_SECOND_NANOS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Position:
    number: int | None = None
    timestamp_micros: int | None = None

    @classmethod
    def of(cls, offset: SourceOffset | None) -> Position:
        found: Mapping[str, Any] = offset or {}
        millis, nanos = found.get("timestamp"), found.get("timestamp_nanos")
        micros = None
        if millis is not None:
            micros = int(millis) * 1000 if nanos is None else int(millis) // 1000 * 1_000_000 + int(nanos) // 1000
        number = found.get("incrementing")
        return cls(None if number is None else int(number), micros)

    @property
    def offset(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self.number is not None:
            made["incrementing"] = self.number
        if self.timestamp_micros is not None:
            made["timestamp"] = self.timestamp_micros // 1000
            made["timestamp_nanos"] = self.timestamp_micros * 1000 % _SECOND_NANOS
        return made


def partition_of(table: SourceTable | None) -> SourcePartition:
    return QUERY if table is None else {"protocol": "1", "table": table.qualified}


def stored_offset(offsets: Mapping[str, SourceOffset], table: SourceTable | None) -> SourceOffset | None:
    """Also of connectors that named the table without its database, or without a protocol (version 0)."""
    if table is None:
        return offset_of(offsets, QUERY)
    found = (offset_of(offsets, {"protocol": "1", "table": name}) for name in (table.qualified, str(table.table)))
    older = offset_of(offsets, {"table": table.table.name})
    return next((each for each in found if each is not None), older)


@dataclass(frozen=True, slots=True)
class Range:
    """Rows behind `after`, and up to a bound: a row (`last`, included), or a moment (`before_micros`, excluded)."""

    after: Position
    last: Position | None = None
    before_micros: int | None = None


class Criteria:
    """SQL for a range of rows."""

    def __init__(self, settings: SourceSettings, reading: Reading) -> None:
        self._settings = settings
        self._reading = reading
        self.number = reading.ids.written(settings.incrementing_column) if settings.has_numbers else ""
        self.timestamp = reading.timestamp(settings.timestamp_columns) if settings.has_timestamps else ""

    @property
    def order(self) -> str:
        return ", ".join(filter(None, (self.timestamp, self.number)))

    @property
    def position_columns(self) -> Sequence[str]:
        """SQL for the parts of a row's position, in the order of `position`."""
        micros = self._reading.timestamp_micros(self.timestamp, self._settings.timezone) if self.timestamp else ""
        return list(filter(None, (micros, self.number)))

    def position(self, values: Sequence[Any]) -> Position:
        remaining = list(values)
        micros = self._reading.instant(int(remaining.pop(0)), self._settings.timezone) if self.timestamp else None
        return Position(int(remaining[0]) if self.number else None, micros)

    def condition(self, rows: Range) -> str:
        return " AND ".join(filter(None, (self._after(rows.after), self._up_to(rows))))

    def _after(self, position: Position) -> str:
        if self._settings.mode is Mode.INCREMENTING:
            return "" if position.number is None else f"{self.number} > {position.number}"
        if position.timestamp_micros is None:
            return f"{self.timestamp} IS NOT NULL"
        moment = self._literal(position.timestamp_micros)
        if self._settings.mode is Mode.TIMESTAMP or position.number is None:
            return f"{self.timestamp} > {moment}"
        same = f"({self.timestamp} = {moment} AND {self.number} > {position.number})"
        return f"({self.timestamp} > {moment} OR {same})"

    def _up_to(self, rows: Range) -> str:
        if rows.last is None:
            return "" if rows.before_micros is None else f"{self.timestamp} < {self._literal(rows.before_micros)}"
        if self._settings.mode is Mode.INCREMENTING:
            return f"{self.number} <= {rows.last.number}"
        assert rows.last.timestamp_micros is not None
        moment = self._literal(rows.last.timestamp_micros)
        if self._settings.mode is Mode.TIMESTAMP:
            return f"{self.timestamp} <= {moment}"
        same = f"({self.timestamp} = {moment} AND {self.number} <= {rows.last.number})"
        return f"({self.timestamp} < {moment} OR {same})"

    def _literal(self, micros: int) -> str:
        return self._reading.timestamp_literal(micros, self._settings.timezone)
