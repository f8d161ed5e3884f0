"""Why a value does not parse, in words: the column, its type and what stands there instead.

Spark marks a value that does not parse and says no more. The reasons here look at the value again, which costs nothing
for a row that is good. They also find what Spark's parsers accept and change without a word: bytes that are not UTF-8,
halves of surrogate pairs, a second object in one value, numbers that a type cuts off.

Owns the words. It must not know where a value comes from, nor what becomes of a bad row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.pipeline.rows.bad_rows import excerpt
from penstock.pipeline.rows.formats import CORRUPT, TINYINT_RANGE, parsed, rarely_evaluated

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructField, StructType

Origin = Literal["declared", "inferred"]
"""Where the columns come from."""

REPLACEMENT_CHARACTER: Final = "\ufffd"
# Each column that is looked at is code, which Java compiles when the query starts.
_COLUMNS_MAX: Final = 100
_ESCAPED: Final = r"(?<!\\)(?:\\\\)*"
_HIGH: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE: Final = f"{_ESCAPED}{_HIGH}(?!{_LOW})|{_ESCAPED}(?<!{_HIGH}){_LOW}"


_TIMES: Final = ("0001-01-01", "9999-12-31 23:59:59.999999")
_STRINGS: Final = r'"(?:\\.|[^"\\])*"'
_OBJECT_BEHIND_OBJECT: Final = r"\}\s*[^\s,\]\}]"


@dataclass(frozen=True, slots=True)
class ParsedColumns:
    """The columns of a source, and how its values are parsed. `subject` is what is parsed: the value, the line.

    Rows are those of `formats.parsed`.
    """

    format_name: str
    schema: StructType
    format_options: Mapping[str, Any]
    origin: Origin
    subject: str = "the value"

    def reason(self, text: Column, row: Column) -> Column:
        """For a text that did not parse, and the row that Spark made of it nevertheless."""
        from pyspark.sql import functions as f

        said = [self._wrong_column(text, row), self._wrong_shape(text)]
        return rarely_evaluated(f.coalesce(*(reason for reason in said if reason is not None)))

    def changed(self, row: Column, text: Column | None = None) -> Column:
        """The reason for a row that did parse, with another value than its text has; NULL for any other.

        Without the text, a number that has become infinite cannot be told from one that is.
        """
        from pyspark.sql import functions as f
        from pyspark.sql.types import ByteType, DoubleType, FloatType, TimestampType

        found: Column = f.lit(None).cast("string")
        for field in reversed(self.schema.fields):
            value = row[field.name]
            if isinstance(field.dataType, ByteType) and self.format_name == "json":
                found = f.when(~value.between(*TINYINT_RANGE), self._got(field, value.cast("string"))).otherwise(found)
            elif isinstance(field.dataType, FloatType | DoubleType) and text is not None:
                number = self._given_number(text, field.name)
                is_too_large = (f.abs(value) == float("inf")) & f.rlike(number, f.lit("[0-9]"))
                found = f.when(is_too_large, self._got(field, number)).otherwise(found)
            elif isinstance(field.dataType, TimestampType):
                first, last = (f.lit(time).cast("timestamp") for time in _TIMES)
                given = value.cast("string") if text is None else self._given(text, field.name)
                said = f.concat(self._got(field, given), f.lit(", not in the years 1 to 9999; a number is in seconds"))
                found = f.when(~value.between(first, last), said).otherwise(found)
        return found

    def _wrong_column(self, text: Column, row: Column) -> Column | None:
        """The first column that has a value and became NULL."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StringType

        wrong: Column | None = None
        for field in self.schema.fields[:_COLUMNS_MAX]:
            if isinstance(field.dataType, StringType):
                continue
            given = self._given(text, field.name)
            is_wrong = row[field.name].isNull() & given.isNotNull() & (given != "")
            said = self._got(field, given)
            wrong = f.when(is_wrong, said) if wrong is None else wrong.when(is_wrong, said)
        return wrong

    def _got(self, field: StructField, given: Column) -> Column:
        from pyspark.sql import functions as f

        type_name = field.dataType.simpleString().upper()
        said = f.concat(f.lit(f"column '{field.name}' is {type_name} as {self.origin}, got "), excerpt(given))
        return rarely_evaluated(said)

    def _given(self, text: Column, name: str) -> Column:
        """What the text has for a column, as text; NULL if it has nothing, or if the name cannot be looked for."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StringType, StructField, StructType

        if self.format_name == "csv":
            texts = StructType([StructField(column, StringType()) for column in self.schema.names])
            return parsed(text, "csv", texts, self.format_options)[name]
        return f.lit(None).cast("string") if "'" in name else f.get_json_object(text, f"$['{name}']")

    def _given_number(self, text: Column, name: str) -> Column:
        """The digits of a number; anything else for what is no number. `get_json_object` says Infinity of 1e400."""
        from pyspark.sql import functions as f

        if self.format_name == "csv":
            return self._given(text, name)
        return f.regexp_extract(text, rf'"{re.escape(name)}"\s*:\s*(-?[0-9][0-9.eE+-]*)', 1)

    def _wrong_shape(self, text: Column) -> Column:
        from pyspark.sql import functions as f

        count = len(self.schema.fields)
        if self.format_name == "csv":
            return f.concat(f.lit(f"{self.subject} does not have the {count} {self.origin} columns: "), excerpt(text))
        not_json = f.concat(f.lit(f"{self.subject} is not a JSON object: "), excerpt(text))
        does_not_fit = f.lit(f"{self.subject} does not parse as json of the {self.origin} columns: ")
        return f.when(f.json_object_keys(text).isNull(), not_json).otherwise(f.concat(does_not_fit, excerpt(text)))


def changed_text(text: Column, format_name: str, subject: str) -> Column:
    """The reason for a text that Spark's parser takes for something else than it is; NULL for any other."""
    from pyspark.sql import functions as f

    found = [not_utf8(text, subject)]
    if format_name == "json":
        found += [_lone_surrogate(text, subject), _more_than_an_object(text, subject)]
    elif format_name == "csv":
        found.append(f.when(f.trim(text) == "", f.lit(f"{subject} is empty")))
    return f.coalesce(*found)


def not_utf8(text: Column, subject: str) -> Column:
    """The reason for a text whose bytes are not UTF-8; NULL for one whose bytes are. NULL is valid."""
    from pyspark.sql import functions as f

    legible = f.make_valid_utf8(text)
    place = f.instr(legible, REPLACEMENT_CHARACTER).cast("string")
    said = f.concat(f.lit(f"{subject} is not valid UTF-8 at character "), place, f.lit(": "), excerpt(legible))
    return f.when(~f.coalesce(f.is_valid_utf8(text), f.lit(True)), rarely_evaluated(said))


def replaced_characters(row: Column, schema: StructType, subject: str) -> Column:
    """The reason for a row of a file with U+FFFD in a text: Spark's readers write it for bytes that are not UTF-8.

    The bytes themselves are lost by then. A file that holds the character itself cannot be told from one that does not.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    found: Column | None = None
    for field in schema.fields:
        if isinstance(field.dataType, StringType):
            text = row[field.name]
        elif isinstance(field.dataType, ArrayType | MapType | StructType):
            text = f.to_json(row[field.name])
        else:
            continue
        said = f.concat(
            f.lit(f"{subject} has U+FFFD in column '{field.name}', as where bytes are not valid UTF-8: "), excerpt(text)
        )
        is_replaced = f.contains(text, f.lit(REPLACEMENT_CHARACTER))
        found = f.when(is_replaced, said) if found is None else found.when(is_replaced, said)
    return f.lit(None).cast("string") if found is None else found


def _lone_surrogate(text: Column, subject: str) -> Column:
    """The reason for JSON with an escaped half of a surrogate pair, for which Spark writes a question mark."""
    from pyspark.sql import functions as f

    said = f.concat(f.lit(f"{subject} has half of a surrogate pair: "), excerpt(text))
    # Few values have an escape at all, and a search costs a fraction of the pattern.
    return f.when(f.contains(text, f.lit("\\u")) & f.rlike(text, f.lit(_LONE_SURROGATE)), rarely_evaluated(said))


def _more_than_an_object(text: Column, subject: str) -> Column:
    """The reason for JSON with something behind its object: Spark reads the first one and leaves out the rest."""
    from pyspark.sql import functions as f

    # Most values end with their first closing brace. Of the others, the strings are taken out to look behind it.
    behind = f.octet_length(text) - f.octet_length(f.substring_index(text, "}", 1)) - 1
    without_strings = f.regexp_replace(text, _STRINGS, "")
    said = f.concat(f.lit(f"{subject} has more than one JSON object: "), excerpt(text))
    return f.when((behind > 0) & f.rlike(without_strings, f.lit(_OBJECT_BEHIND_OBJECT)), rarely_evaluated(said))


def corrupt(row: Column) -> Column:
    """Whether a row of `formats.parsed` did not parse."""
    return row.isNull() | row[CORRUPT].isNotNull()
