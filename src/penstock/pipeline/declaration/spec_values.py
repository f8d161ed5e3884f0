"""The kinds of values that a pipeline is made of: durations, names, options, references to functions.

Owns what is right and wrong about one value by itself, and the words for it. It must never know which key holds which
value, nor import pyspark: a pipeline is checked on machines without Java.

Invariant: a message here never repeats a value that may hold a password.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

REFUSED: Final = "refused"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SINK_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_SQL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_DURATION: Final = re.compile(r"\d+ (millisecond|second|minute|hour|day|week)s?")
_UNITS_MS: Final = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_COMMENTS_AND_SPACE: Final = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/|\()*", re.DOTALL)
_QUERY: Final = re.compile(r"(select|with|from|values|table)\b", re.IGNORECASE)


class Settings(BaseModel):
    """What every part of a pipeline has in common: it cannot be changed, and unknown keys are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True)


def refused(key: str, message: str) -> PydanticCustomError:
    """A mistake that shows only when several keys are seen together, reported at the key that should change.

    The braces of a message are the reader's, not pydantic's: the text travels as context.
    """
    return PydanticCustomError(REFUSED, "{text}", {"text": message, "key": key})


def _pipeline_name(value: str) -> str:
    if not _NAME.fullmatch(value) or len(value) > 200:
        raise ValueError(
            "a pipeline's name becomes a group and a directory: letters, digits, '.', '_', '-', at most 200"
        )
    return value


def _topic_name(value: str) -> str:
    if not _TOPIC.fullmatch(value) or value in (".", ".."):
        raise ValueError(f"{value!r} is not a topic name: letters, digits, '.', '_', '-', at most 249")
    return value


def _topic_pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as mistake:
        raise ValueError(f"not a regular expression: {mistake}") from mistake
    return value


def _sql_name(value: str) -> str:
    if not _SQL_NAME.fullmatch(value):
        raise ValueError(f"{value!r} cannot be a name in SQL: letters, digits and '_', not beginning with a digit")
    return value


def _sink_name(value: str) -> str:
    if not _SINK_NAME.fullmatch(value):
        raise ValueError(f"{value!r} cannot name a sink, whose progress is a directory: letters, digits, '_', '-'")
    return value


def _duration(value: str) -> str:
    if not _DURATION.fullmatch(value) or value.startswith("0 "):
        raise ValueError(f"{value!r} is not a duration such as '10 seconds', '5 minutes' or '1 hour'")
    return value


def duration_ms(value: str) -> int:
    """Of a `Duration`."""
    number, _, unit = value.partition(" ")
    return int(number) * _UNITS_MS[unit.removesuffix("s")]


def _function(value: str) -> str:
    if not _FUNCTION.fullmatch(value):
        raise ValueError(f"{value!r} is not a reference to a function such as 'my_module:my_function'")
    return value


def _query(value: str) -> str:
    begun = _COMMENTS_AND_SPACE.match(value)
    assert begun is not None  # the pattern matches nothing, too
    if not _QUERY.match(value, begun.end()):
        raise ValueError("expected a SQL query, such as SELECT ...; a function is {python: 'module:function'}")
    return value


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | bool | int | float):
        raise ValueError("expected text, a number, true or false")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


def one_or_several(value: Any) -> Any:
    """A single word where a list may stand is a list of one."""
    return [value] if isinstance(value, str) else value


Scalar = Annotated[Any, AfterValidator(_scalar), WithJsonSchema({"type": ["string", "boolean", "number"]})]
PipelineName = Annotated[str, AfterValidator(_pipeline_name)]
TopicName = Annotated[str, AfterValidator(_topic_name)]
TopicPattern = Annotated[str, AfterValidator(_topic_pattern)]
SqlName = Annotated[str, AfterValidator(_sql_name)]
SinkName = Annotated[str, AfterValidator(_sink_name)]
Duration = Annotated[str, AfterValidator(_duration)]
FunctionReference = Annotated[str, AfterValidator(_function)]
Query = Annotated[str, AfterValidator(_query)]
Expression = Annotated[str, AfterValidator(_not_blank)]
Text = Annotated[str, AfterValidator(_not_blank)]
# Not part of a repr: they are where passwords live.
Options = Annotated[dict[str, Scalar], Field(repr=False)]
Columns = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    BeforeValidator(one_or_several, json_schema_input_type=str | list[str]),
]
Topics = Annotated[
    tuple[TopicName, ...],
    Field(min_length=1),
    BeforeValidator(one_or_several, json_schema_input_type=str | list[str]),
]
