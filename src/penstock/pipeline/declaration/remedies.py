"""What an author probably meant: a text where a mapping belongs, a key one level too high or too deep.

Owns the guesses, never the verdict: each is an addition to a line that says what is wrong, and "" where there is none.
It must not show values by itself: it is given them as they may be shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from penstock.pipeline.declaration.spec import DeadLetters, EveryInterval, PipelineSpec
from penstock.pipeline.declaration.verdicts import KeyPath
from penstock.pipeline.sinks.kinds import SINKS
from penstock.pipeline.sinks.sink import Sink
from penstock.pipeline.sources.kinds import SOURCES
from penstock.pipeline.sources.source import Source

_BEGINS_AS_DURATION: Final = re.compile(
    r"(?:every )?(\d+) ?(ms|millis|[smhd]|[a-z]*second|[a-z]*minute|hour|day|week)[a-z]*$"
)
_UNITS: Final = {"ms": "millisecond", "millis": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day"}
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]+")
_BELOW_ROLES: Final = ("source", "sink")


def keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def duration_meant(text: str) -> str | None:
    """`5s`, `5 sec` and `every 5 seconds` as a duration: `5 seconds`."""
    found = _BEGINS_AS_DURATION.match(text.strip().lower())
    if found is None:
        return None
    number, unit = found.groups()
    unit = _UNITS.get(unit, unit)
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


def for_word(path: KeyPath, text: str) -> str:
    """For a word that is not among those that a key takes."""
    if path == ("trigger",) and (duration := duration_meant(text)) is not None:
        return f"; for a micro-batch every {duration}, write {{interval: {duration}}}"
    if path == ("on_error",):
        topic = "TOPIC" if text.replace("-", "_") in ("dead_letters", "dead_letter", "deadletters", "dlq") else text
        if _TOPIC.fullmatch(topic):
            return f"; to send bad rows to a topic, write {{dead_letters: {topic}}}"
    return ""


def for_kind(path: KeyPath, value: Any, text: str | None) -> str:
    """For something that is no source or sink. `text` is the value as it may be shown, if it is one."""
    role = path[0] if path and path[0] in _BELOW_ROLES else None
    if role is None and len(path) == 2 and path[0] in ("sources", "sinks"):
        role = str(path[0])[:-1]
    if role is None:
        return ""
    if len(path) == 1 and isinstance(value, Mapping) and value and all(isinstance(v, Mapping) for v in value.values()):
        return f"; several are {role}s: {{{', '.join(f'{name}: {{...}}' for name in value)}}}"
    if len(path) == 1 and isinstance(value, Sequence) and not isinstance(value, str):
        return f"; several are {role}s: {{NAME: {{...}}, ...}}"
    if text is None:
        return ""
    return f"; write {key_of(path)}: {_spelled(str(role), text)}"


def key_of(path: KeyPath) -> str:
    return str(path[-1])


def _spelled(role: str, text: str) -> str:
    if role == "sink" and text == "console":
        return "{console: true}"
    if "://" in text and not text.startswith(("hdfs:", "s3", "file:")):
        return f"{{table: TABLE, url: '{text}'}}"
    if "/" in text or text.endswith((".json", ".csv", ".parquet")):
        return f"{{files: {text}}}"
    if role == "sink" and re.fullmatch(r"\w+(\.\w+)*:\w+", text):
        return f"{{python: '{text}'}}"
    return f"{{topic: {text}}}"


def for_unknown_key(key: str, path: KeyPath, model: type[BaseModel]) -> str | None:
    """Where a key belongs that is not one of `model`, whose place is `path`; None if it belongs nowhere."""
    if model is not PipelineSpec and key in keys(PipelineSpec):
        return f"stands at the top level, beside {key_of(path[:1])}: move it out of {key_of(path[:-1])}"
    if model is PipelineSpec and len(path) == 1:
        homes = _homes_below(key)
        if homes:
            return f"belongs below {' or '.join(homes)}, as in {homes[0]}: {{{key}: ...}}"
    if issubclass(model, Sink) and any(key in keys(kind) for kind in SOURCES):
        return "is a key of a source, not of a sink"
    if issubclass(model, Source) and any(key in keys(kind) for kind in SINKS):
        return "is a key of a sink, not of a source"
    return None


def _homes_below(key: str) -> list[str]:
    homes = []
    if key in keys(EveryInterval):
        homes.append("trigger")
    if key in keys(DeadLetters):
        homes.append("on_error")
    if any(key in keys(kind) for kind in SOURCES):
        homes.append("source")
    if any(key in keys(kind) for kind in SINKS):
        homes.append("sink")
    return homes


def for_type(path: KeyPath, expected: str, value: Any, text: str | None) -> str:
    """For a value of the wrong type. `expected` is pydantic's name of the mismatch."""
    key = key_of(path) if path else ""
    if expected in ("dict_type", "model_type") and key == "expect" and text is not None:
        return f"; give the condition a name, as in expect: {{RULE: '{text}'}}"
    if expected in ("dict_type", "model_type") and key in ("options", "spark", "format_options"):
        return f"; write {key}: {{NAME: VALUE}}"
    if expected == "string_type" and key == "schema" and isinstance(value, Mapping):
        columns = ", ".join(f"{name} {kind}" for name, kind in value.items() if isinstance(kind, str))
        return f"; write the columns as in CREATE TABLE: schema: '{columns}'" if columns else ""
    if expected == "string_type" and key in ("interval", "watermark") and isinstance(value, int | float):
        return f"; it has a unit, as in '{value} seconds'"
    return ""
