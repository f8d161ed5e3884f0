"""Header values from texts: how Kafka's `Values` guesses a schema. `value_texts.py` is the way back.

Whole numbers get the smallest type that holds them, other numbers are FLOAT32 if they are finite as such, texts that
look like a date, a time or a timestamp are one, and `[...]` and `{...}` are arrays and maps if their elements agree on
a schema. Everything else is a STRING.

Owns these rules. It must not know headers or topics. Times are in UTC, where Kafka takes the time zone of the JVM.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np

from penstock.connect.data import schema as schemas
from penstock.connect.data.exact_numbers import nearest_float32, unscaled_bytes
from penstock.connect.data.schema import Schema, Type

MILLISECONDS_PER_DAY: Final = 86_400_000
_DELIMITERS: Final = ':,{}[]"'
_SIMPLE_TEXT: Final = re.compile(r'[^\s\d+\-:,{}\[\]"\\][^:,{}\[\]"\\]*')
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DATE: Final = re.compile(r"[ \t]*(\d+)-[ \t]*(\d+)-[ \t]*(\d+)")
_TIME: Final = re.compile(r"[ \t]*(\d+):[ \t]*(\d+):[ \t]*(\d+)\.[ \t]*(\d+)Z")
_DATE_LENGTH: Final = 10
_TIME_LENGTH: Final = 13
_TIMESTAMP_LENGTH: Final = 24
_DAY_OF_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_YEAR_MAX: Final = 9999
_INTEGERS: Final = ((8, schemas.INT8), (16, schemas.INT16), (32, schemas.INT32), (64, schemas.INT64))
_NUMERIC: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_JAVA_WHITE_SPACE: Final = "".join(map(chr, range(33)))


class NotParsed(Exception):
    """The text is no array or map after all, or an element is no value."""


@dataclass(frozen=True, slots=True)
class _Instant:
    """A java.util.Date."""

    ms: int


@dataclass(frozen=True, slots=True)
class _Parsed:
    schema: Schema | None
    value: Any


def parse(text: str) -> tuple[Schema | None, Any]:
    """Schema and value, which is in the base type of the schema. (None, None) for the text `null`."""
    trimmed = text.strip(_JAVA_WHITE_SPACE)
    if not text or (_SIMPLE_TEXT.fullmatch(text) and trimmed not in ("null", "true", "false")):
        return schemas.STRING, text
    parsed = _ValueParser(text).parse(embedded=False)
    if parsed is None or parsed.schema is None:
        return None, None
    try:
        return parsed.schema, _base_value(parsed.schema, parsed.value)
    except NotParsed:
        # Kafka has values here that do not match their schema.
        return schemas.STRING, text


def _base_value(schema: Schema | None, value: Any) -> Any:
    """Raises NotParsed for a value that is not one of its schema."""
    if value is None or schema is None:
        return _without_schema(value)
    match value:
        case _Instant(ms):
            if schema.name == schemas.DATE:
                return ms // MILLISECONDS_PER_DAY
            if schema.name == schemas.TIME and ms < 1 << 31:
                return ms
            if schema.name == schemas.TIMESTAMP:
                return ms
            raise NotParsed
        case Decimal():
            scale = int(schema.parameter(schemas.DECIMAL_SCALE) or 0)
            exponent = value.as_tuple().exponent
            if schema.name != schemas.DECIMAL or exponent != -scale:
                raise NotParsed
            digits = value.as_tuple()
            whole = int("".join(map(str, digits.digits)) or "0")
            return unscaled_bytes(-whole if digits.sign else whole)
        case list() if schema.type is Type.MAP:
            return [(_base_value(schema.key_schema, k), _base_value(schema.value_schema, v)) for k, v in value]
        case list() if schema.type is Type.ARRAY:
            return [_base_value(schema.value_schema, member) for member in value]
        case bool():
            fits = schema.type is Type.BOOLEAN
        case str():
            fits = schema.type is Type.STRING
        case int() | float():
            fits = schema.type in _NUMERIC and schema.name is None
        case _:
            fits = False
    if not fits:
        raise NotParsed
    return value


def _without_schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_schema(member) for member in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotParsed


class _ValueParser:
    """Kafka's tokens are delimiters and the texts between them; a backslash takes the meaning of a delimiter away."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._ahead: str | None = None
        self._previous: str | None = None

    def parse(self, *, embedded: bool) -> _Parsed | None:
        if not self._has_next():
            return None
        if embedded and self._consumes('"'):
            return self._quoted()
        for literal, parsed in (
            ("null", None),
            ("true", _Parsed(schemas.BOOLEAN, True)),
            ("false", _Parsed(schemas.BOOLEAN, False)),
        ):
            if self._consumes_literal(literal, embedded=embedded):
                return parsed
        start = self._mark()
        try:
            if self._consumes("["):
                return self._array()
            if self._consumes("{"):
                return self._map()
        except NotParsed:
            self._rewind(start)
        token = self._next()
        if not token.strip():
            return _Parsed(schemas.STRING, token)
        return self._token(token.strip(_JAVA_WHITE_SPACE), embedded=embedded)

    def _token(self, token: str, *, embedded: bool) -> _Parsed:
        starts_with_digit = token[0].isdecimal()
        if starts_with_digit:
            temporal = self._temporal_of_tokens(token)
            if temporal is not None:
                return temporal
        if (starts_with_digit or token[0] in "+-") and _NUMBER.fullmatch(token):
            return _number(token)
        if embedded:
            raise NotParsed
        return _Parsed(schemas.STRING, self._text)

    def _temporal_of_tokens(self, token: str) -> _Parsed | None:
        """A colon is a delimiter, so a time is five tokens."""
        position = self._mark()
        rest = self._next_tokens(4)
        if rest is not None:
            temporal = _temporal(token + rest)
            if temporal is not None:
                return temporal
        self._rewind(position)
        return _temporal(token)

    def _quoted(self) -> _Parsed:
        content = []
        while self._has_next():
            if self._consumes('"'):
                break
            content.append(self._next())
        text = "".join(content)
        return _temporal(text) or _Parsed(schemas.STRING, text)

    def _array(self) -> _Parsed:
        values: list[Any] = []
        common = _CommonSchema()
        while self._has_next():
            if self._consumes("]"):
                if common.schema is None:
                    return _Parsed(Schema(Type.ARRAY), values)
                aligned = [_converted(common.schema, value) for value in values]
                return _Parsed(Schema(Type.ARRAY, value_schema=common.schema), aligned)
            if self._consumes(","):
                raise NotParsed
            element = self.parse(embedded=True)
            common.merge(element)
            values.append(None if element is None else element.value)
            position = self._mark()
            if self._consumes("]"):
                self._rewind(position)
            elif not self._consumes(","):
                raise NotParsed
        raise NotParsed

    def _map(self) -> _Parsed:
        pairs: dict[Any, tuple[Any, Any]] = {}
        keys, values = _CommonSchema(), _CommonSchema()
        while self._has_next():
            if self._consumes("}"):
                return _map_of(keys.schema, values.schema, list(pairs.values()))
            if self._consumes(","):
                raise NotParsed
            key = self.parse(embedded=True)
            if key is None or key.value is None or not self._consumes(":"):
                raise NotParsed
            value = self.parse(embedded=True)
            pairs[repr(key.value)] = (key.value, None if value is None else value.value)
            self._consumes(",")
            keys.merge(key)
            values.merge(value)
        raise NotParsed

    # Tokens

    def _mark(self) -> int:
        return self._position - (0 if self._ahead is None else len(self._ahead))

    def _rewind(self, position: int) -> None:
        self._position = position
        self._ahead = self._previous = None

    def _has_next(self) -> bool:
        return self._ahead is not None or self._position < len(self._text)

    def _next(self) -> str:
        if self._ahead is None:
            return self._read()
        token, self._ahead = self._ahead, None
        return token

    def _next_tokens(self, count: int) -> str | None:
        start = self._mark()
        for _ in range(count):
            if not self._has_next():
                self._rewind(start)
                return None
            self._next()
        return self._text[start : self._position]

    def _read(self) -> str:
        start, is_escaped = self._position, False
        while self._position < len(self._text):
            character = self._text[self._position]
            if character == "\\":
                is_escaped = not is_escaped
            elif character in _DELIMITERS and not is_escaped:
                if start == self._position:
                    self._position += 1
                return self._text[start : self._position]
            else:
                is_escaped = False
            self._position += 1
        return self._text[start : self._position]

    def _consumes(self, expected: str) -> bool:
        if self._ahead is None:
            if not self._has_next():
                return False
            self._ahead = self._read()
        while not self._ahead.strip() and self._position < len(self._text):
            self._ahead = self._read()
        if self._ahead.strip(_JAVA_WHITE_SPACE) != expected:
            return False
        self._ahead = None
        return True

    def _consumes_literal(self, literal: str, *, embedded: bool) -> bool:
        start = self._mark()
        if self._consumes(literal) and (embedded or not self._has_next()):
            return True
        self._rewind(start)
        return False


def _map_of(key_schema: Schema | None, value_schema: Schema | None, pairs: list[tuple[Any, Any]]) -> _Parsed:
    if key_schema is None:
        return _Parsed(Schema(Type.MAP), pairs)
    keys = [_converted(key_schema, key) for key, _value in pairs]
    values = [value if value_schema is None else _converted(value_schema, value) for _key, value in pairs]
    aligned = list(zip(keys, values, strict=True))
    return _Parsed(Schema(Type.MAP, key_schema=key_schema, value_schema=value_schema), aligned)


class _CommonSchema:
    """What the elements of an array agree on: numbers on the largest type among them."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._is_compatible = True

    def merge(self, latest: _Parsed | None) -> None:
        if latest is None or latest.schema is None or not self._is_compatible:
            return
        self.schema = latest.schema if self.schema is None else _common(self.schema, latest.schema)
        self._is_compatible = self.schema is not None


def _common(previous: Schema, latest: Schema) -> Schema | None:
    if previous.type is latest.type:
        return latest
    if previous.type not in _NUMERIC or latest.type not in _NUMERIC:
        return None
    return max(previous, latest, key=lambda schema: _NUMERIC.index(schema.type))


def _converted(schema: Schema, value: Any) -> Any:
    """An element in the schema that all of them share. Raises NotParsed."""
    if value is None:
        raise NotParsed
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if schema.name in (schemas.DATE, schemas.TIME, schemas.TIMESTAMP) and is_number:
        milliseconds = int(value) * (MILLISECONDS_PER_DAY if schema.name == schemas.DATE else 1)
        if schema.name == schemas.TIME and not 0 <= milliseconds <= MILLISECONDS_PER_DAY:
            raise NotParsed
        return _Instant(milliseconds)
    if schema.type in _NUMERIC and schema.name is None and not is_number:
        raise NotParsed
    if schema.type is Type.FLOAT32:
        return float(np.float32(value))
    return float(value) if schema.type is Type.FLOAT64 else value


def _number(token: str) -> _Parsed:
    decimal = Decimal(token)
    sign, digits, exponent = decimal.as_tuple()
    assert isinstance(exponent, int)
    if decimal == 0:
        return _Parsed(schemas.INT8, 0)
    size = decimal.adjusted()
    if 0 <= size <= 19 and decimal == decimal.to_integral_value():
        whole = int(decimal)
        for bits, schema in _INTEGERS:
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return _Parsed(schema, whole)
    single = nearest_float32(decimal)
    if np.isfinite(single) and exponent != 0:
        return _Parsed(schemas.FLOAT32, single)
    double = float(decimal)
    if np.isfinite(double) and exponent != 0:
        return _Parsed(schemas.FLOAT64, double)
    return _Parsed(schemas.decimal(-exponent), Decimal((sign, digits, exponent)))


def _temporal(text: str) -> _Parsed | None:
    token = text.replace("\\:", ":")
    if len(token) == _TIME_LENGTH:
        time = _time_ms(token)
        return None if time is None else _Parsed(schemas.time(), _Instant(time))
    if len(token) == _DATE_LENGTH:
        days = _days(_DATE.match(token))
        return None if days is None else _Parsed(schemas.date(), _Instant(days * MILLISECONDS_PER_DAY))
    if len(token) != _TIMESTAMP_LENGTH:
        return None
    date = _DATE.match(token)
    days = _days(date)
    if date is None or days is None or token[date.end() : date.end() + 1] != "T":
        return None
    time = _time_ms(token[date.end() + 1 :])
    return None if time is None else _Parsed(schemas.timestamp(), _Instant(days * MILLISECONDS_PER_DAY + time))


def _days(found: re.Match[str] | None) -> int | None:
    """Lenient, as Java's SimpleDateFormat: the 32nd of a month is the first of the next."""
    if found is None:
        return None
    year, month, day = map(int, found.groups())
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    if not 1 <= year <= _YEAR_MAX:
        return None
    return datetime.date(year, month, 1).toordinal() - _DAY_OF_EPOCH + day - 1


def _time_ms(text: str) -> int | None:
    found = _TIME.match(text)
    if found is None:
        return None
    hours, minutes, seconds, milliseconds = map(int, found.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds
