"""java.text.SimpleDateFormat for whole columns: English names, UTC, lenient as Java's.

Formatting works on columns. Parsing works on columns where every text has the width of the pattern, and text by text
for the others.

Owns the pattern language. It must not know records. It differs from Java before 15 October 1582 (Java switches to the
Julian calendar), in the letters Y, w, W, F and u when parsing (read and ignored), and in names of time zones when
parsing (only UTC, GMT and offsets).
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_LETTERS: Final = frozenset("GyMLdkHmsSEuDFwWahKzZYX")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MILLIS_PER_DAY: Final = 86_400_000
_TEXT_LETTERS: Final = frozenset("GEazZX")
_UNITS_MS: Final = {"H": 3_600_000, "k": 3_600_000, "K": 3_600_000, "h": 3_600_000, "m": 60_000, "s": 1000, "S": 1}
_OFFSET: Final = re.compile(r"([+-])(\d{1,2}):?(\d{2})?")

Numbers = npt.NDArray[np.int64]


class PatternError(ValueError):
    """The text is that of Java's IllegalArgumentException."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A run of one letter, or a text that stands for itself (`letter` is empty)."""

    letter: str
    count: int
    text: str = ""

    @property
    def is_number(self) -> bool:
        if self.letter in ("M", "L"):
            return self.count <= 2
        return self.letter != "" and self.letter not in _TEXT_LETTERS


def _tokens(pattern: str) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    position, literal = 0, ""
    while position < len(pattern):
        letter = pattern[position]
        if letter == "'":
            end = position + 1
            if pattern[end : end + 1] == "'":
                literal, position = literal + "'", end + 1
                continue
            while True:
                end = pattern.find("'", end)
                if end < 0:
                    raise PatternError("Unterminated quote")
                if pattern[end + 1 : end + 2] != "'":
                    break
                end += 2
            literal, position = literal + pattern[position + 1 : end].replace("''", "'"), end + 1
        elif letter.isascii() and letter.isalpha():
            if letter not in _LETTERS:
                raise PatternError(f"Illegal pattern character '{letter}'")
            end = position
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            if literal:
                tokens.append(_Token("", 0, literal))
                literal = ""
            if letter == "X" and end - position > 3:
                raise PatternError(f"invalid ISO 8601 format: length={end - position}")
            tokens.append(_Token(letter, end - position))
            position = end
        else:
            literal, position = literal + letter, position + 1
    if literal:
        tokens.append(_Token("", 0, literal))
    return tuple(tokens)


class SimpleDateFormat:
    def __init__(self, pattern: str) -> None:
        """Raises PatternError."""
        self.pattern = pattern
        self._tokens = _tokens(pattern)
        self._fixed_width = self._fixed_width_pattern()

    # Formatting

    def format(self, millis: pa.Array) -> pa.Array:
        """`millis` is int64, milliseconds since 1970; nulls stay null."""
        numbers = millis.fill_null(0).to_numpy(zero_copy_only=False)
        fields = _CalendarFields(numbers)
        parts = [self._format_token(token, fields) for token in self._tokens]
        if not parts:
            parts = [pa.scalar("")]
        parts = [pa.repeat(part, len(numbers)) if isinstance(part, pa.Scalar) else part for part in parts]
        texts = pc.binary_join_element_wise(*parts, "")
        return pc.if_else(millis.is_valid(), texts, pa.scalar(None, pa.string())) if millis.null_count else texts

    @staticmethod
    def _format_token(token: _Token, fields: _CalendarFields) -> pa.Array | pa.Scalar:
        letter, count = token.letter, token.count
        match letter:
            case "":
                return pa.scalar(token.text)
            case "G":
                return pa.scalar("AD")
            case "z":
                return pa.scalar("Coordinated Universal Time" if count >= 4 else "UTC")
            case "Z":
                return pa.scalar("+0000")
            case "X":
                return pa.scalar("Z")
            case "E":
                return _named(_WEEKDAYS, fields.weekday, short=count < 4)
            case "a":
                return _named(("AM", "PM"), (fields.hour >= 12).astype(np.int64), short=False)
            case "M" | "L" if count >= 3:
                return _named(_MONTHS, fields.month - 1, short=count == 3)
            case "y" | "Y":
                year = fields.year if letter == "y" else fields.week_year
                return _padded(year % 100, 2) if count == 2 else _padded(year, count)
        return _padded(fields.number(letter), count)

    # Parsing

    def parse(self, texts: pa.Array) -> pa.Array:
        """Milliseconds since 1970, int64; null where the text is null or does not match."""
        result = np.zeros(len(texts), dtype=np.int64)
        good = np.zeros(len(texts), dtype=np.bool_)
        if self._fixed_width is not None:
            expression, letters = self._fixed_width
            found = pc.extract_regex(texts, expression)
            good = found.is_valid().to_numpy(zero_copy_only=False).copy()
            if good.any():
                columns = {
                    letter: pc.cast(pc.if_else(found.is_valid(), found.field(f"f{index}"), "0"), pa.int64()).to_numpy()
                    for index, letter in enumerate(letters)
                }
                result = _combine({letter: column.astype(np.int64) for letter, column in columns.items()}, len(texts))
        for index in np.flatnonzero(~good & texts.is_valid().to_numpy(zero_copy_only=False)):
            value = self.parse_text(texts[int(index)].as_py())
            if value is not None:
                result[index], good[index] = value, True
        return pa.array(result, mask=~good)

    def _fixed_width_pattern(self) -> tuple[str, list[str]] | None:
        """A regular expression that needs no lenience, for patterns of numbers only; and the letters of its groups."""
        expression = ""
        letters: list[str] = []
        for token in self._tokens:
            if not token.letter:
                expression += re.escape(token.text)
            elif token.letter in "MdHms" and token.count <= 2:
                expression += f"(?P<f{len(letters)}>[0-9]{{2}})"
            elif token.letter == "y" and token.count == 4:
                expression += f"(?P<f{len(letters)}>[0-9]{{4}})"
            elif token.letter == "S" and token.count == 3:
                expression += f"(?P<f{len(letters)}>[0-9]{{3}})"
            else:
                return None
            letters += [token.letter] if token.letter else []
        return (f"^{expression}$", letters) if letters and len(set(letters)) == len(letters) else None

    def parse_text(self, text: str, *, longest: list[int] | None = None) -> int | None:
        """Text behind the end of the pattern is ignored, as in Java. `longest` gets the position of the end."""
        position = 0
        fields: dict[str, int] = {}
        offset_ms = 0
        for index, token in enumerate(self._tokens):
            if not token.letter:
                if not text.startswith(token.text, position):
                    return None
                position += len(token.text)
                continue
            while text[position : position + 1] in (" ", "\t"):
                position += 1
            if position >= len(text):
                return None
            if token.is_number:
                following = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
                width = token.count if following is not None and following.is_number else None
                end = _number_end(text, position, width)
                if end is None:
                    return None
                number = _java_int(text[position:end])
                fields[token.letter] = _year(text, position, end) if token == _Token("y", 2) else number
                position = end
            else:
                read = _read_text(token, text, position)
                if read is None:
                    return None
                position, value = read
                if token.letter in "zZX":
                    offset_ms = value
                else:
                    fields["M" if token.letter == "L" else token.letter] = value
        if longest is not None:
            longest.append(position)
        columns = {letter: np.array([value], dtype=np.int64) for letter, value in fields.items()}
        return int(_combine(columns, 1)[0]) - offset_ms


class _CalendarFields:
    """What the letters of a pattern mean, for a column of milliseconds."""

    def __init__(self, millis: Numbers) -> None:
        self._millis = millis
        days = np.floor_divide(millis, _MILLIS_PER_DAY)
        self._days = days
        self._of_day = millis - days * _MILLIS_PER_DAY
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        years = dates.astype("datetime64[Y]")
        self.year: Numbers = years.astype(np.int64) + 1970
        self.month: Numbers = months.astype(np.int64) % 12 + 1
        self._day: Numbers = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
        self._day_of_year: Numbers = (dates - years.astype("datetime64[D]")).astype(np.int64) + 1
        self.weekday: Numbers = (days + 4) % 7
        self.hour: Numbers = self._of_day // 3_600_000

    @property
    def _week(self) -> tuple[Numbers, Numbers]:
        """Week and year as in the United States: weeks start on Sunday, and 1 January is in the first."""
        first_weekday = (self.weekday - (self._day_of_year - 1)) % 7
        week = (self._day_of_year - 1 + first_weekday) // 7 + 1
        leap = (self.year % 4 == 0) & ((self.year % 100 != 0) | (self.year % 400 == 0))
        next_start = np.where(leap, 366, 365) - self._day_of_year + 1
        in_next = next_start <= 6 - self.weekday
        return np.where(in_next, 1, week), np.where(in_next, self.year + 1, self.year)

    @property
    def week_year(self) -> Numbers:
        return self._week[1]

    def number(self, letter: str) -> Numbers:
        match letter:
            case "M" | "L":
                return self.month
            case "d":
                return self._day
            case "H":
                return self.hour
            case "k":
                return np.where(self.hour == 0, 24, self.hour)
            case "K":
                return self.hour % 12
            case "h":
                return np.where(self.hour % 12 == 0, 12, self.hour % 12)
            case "m":
                return np.asarray(self._of_day // 60_000 % 60)
            case "s":
                return np.asarray(self._of_day // 1000 % 60)
            case "S":
                return np.asarray(self._of_day % 1000)
            case "u":
                return np.where(self.weekday == 0, 7, self.weekday)
            case "D":
                return self._day_of_year
            case "F":
                return (self._day - 1) // 7 + 1
            case "w":
                return self._week[0]
        assert letter == "W"
        first_weekday = (self.weekday - (self._day - 1)) % 7
        return (self._day - 1 + first_weekday) // 7 + 1


def _padded(numbers: Numbers, width: int) -> pa.Array:
    return pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width, "0")


def _named(names: tuple[str, ...], indices: Numbers, *, short: bool) -> pa.Array:
    return pa.array([name[:3] if short else name for name in names]).take(pa.array(indices))


def _combine(fields: dict[str, Numbers], length: int) -> Numbers:
    """Adds up what was read. Nothing is out of range: the 13th month is January of the next year."""
    zero = np.zeros(length, dtype=np.int64)
    months = (fields.get("y", zero + 1970) - 1970) * 12 + (fields.get("M", fields.get("L", zero + 1)) - 1)
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    if "d" in fields or "D" not in fields:
        days = days + fields.get("d", zero + 1) - 1
    else:
        years = fields.get("y", zero + 1970) - 1970
        days = years.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64) + fields["D"] - 1
    millis = days * _MILLIS_PER_DAY
    afternoon = fields.get("a", zero) * 12 * 3_600_000
    for letter, unit in _UNITS_MS.items():
        if letter in fields:
            value = fields[letter]
            if letter in "kh":
                value = np.where(value == (24 if letter == "k" else 12), 0, value)
            millis = millis + value * unit + (afternoon if letter in "hK" else 0)
    return millis


def _number_end(text: str, position: int, width: int | None) -> int | None:
    end = position
    limit = len(text) if width is None else position + width
    if limit > len(text):
        return None
    if text[end : end + 1] == "-":
        end += 1
    digits = end
    while end < limit and text[end].isdecimal():
        end += 1
    return end if end > digits else None


def _java_int(digits: str) -> int:
    """As Number.intValue: a long wraps, and what is larger than a long is the largest or smallest int."""
    number = int(digits)
    if not -(2**63) <= number < 2**63:
        return 2**31 - 1 if number > 0 else -(2**31)
    return (number + 2**31) % 2**32 - 2**31


def _year(text: str, start: int, end: int) -> int:
    """Two digits are a year between 80 years ago and 20 years ahead."""
    number = int(text[start:end])
    if end - start != 2 or not text[start:end].isdecimal():
        return number
    first = datetime.datetime.now(datetime.UTC).year - 80
    return first // 100 * 100 + number + (100 if number < first % 100 else 0)


def _read_text(token: _Token, text: str, position: int) -> tuple[int, int] | None:
    """Position behind it, and its value: a month, half of the day, or an offset in milliseconds."""
    rest = text[position:].lower()
    match token.letter:
        case "G":
            return (position + 2, 1) if rest.startswith("ad") else None
        case "a":
            return (position + 2, int(rest[0] == "p")) if rest.startswith(("am", "pm")) else None
        case "E" | "M" | "L":
            names = _WEEKDAYS if token.letter == "E" else _MONTHS
            candidates = [(len(form), index) for index, name in enumerate(names) for form in (name, name[:3])
                          if rest.startswith(form.lower())]  # fmt: skip
            if not candidates:
                return None
            length, index = max(candidates)
            return position + length, index + 1
    if token.letter == "X" and rest.startswith("z"):
        return position + 1, 0
    if token.letter != "X" and rest.startswith(("utc", "gmt")):
        position, rest = position + 3, rest[3:]
        if not _OFFSET.match(rest):
            return position, 0
    found = _OFFSET.match(rest)
    if found is None:
        return None
    hours, minutes = int(found[2]), int(found[3] or 0)
    return position + found.end(), (1 if found[1] == "+" else -1) * (hours * 60 + minutes) * 60_000
