"""Mistakes in a pipeline, in words: one line each, with the place, the key and the remedy.

Owns the translation of pydantic's reports. What reads a pipeline (`spec_file.py`, `api.py`) brings an `Origin`, which
knows where a key stands and how its value was spelled.

Invariant: a line never shows a value that may be a secret: neither what an environment variable was replaced with, nor
the value of an option or a URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pydantic import BaseModel, ValidationError

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration import remedies
from penstock.pipeline.declaration.choice import MODEL_OF_TAG, nearest
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.spec_values import REFUSED
from penstock.pipeline.declaration.verdicts import KeyPath

_SECRET_KEYS: Final = frozenset({"options", "url"})
_VALUE_LENGTH_MAX: Final = 60
_EXPECTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping of names to values",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One line for a person. `line` and `column` count from 1; 0 is unknown."""

    file: str
    line: int
    key: str
    message: str
    column: int = 0

    def __str__(self) -> str:
        place = self.file
        if self.line:
            place += f":{self.line}"
            if self.column:
                place += f":{self.column}"
        return ": ".join(part for part in (place, self.key, self.message) if part)


class InvalidPipeline(Exception):
    """The pipeline cannot run as it is declared. `problems` is never empty."""

    def __init__(self, problems: Sequence[Problem], exit_code: ExitCode = ExitCode.INVALID_PIPELINE) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
        self.exit_code = exit_code


class Origin(Protocol):
    """Where a declaration stands."""

    def problem(self, path: KeyPath, message: str) -> Problem:
        """The problem with the key at `path`, or with the nearest key around it that there is."""
        ...

    def shown(self, path: KeyPath, value: Any) -> str | None:
        """How the value was spelled there; None if it must not be shown."""
        ...


def key_text(path: KeyPath) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def may_be_shown(path: KeyPath) -> bool:
    return not _SECRET_KEYS.intersection(path)


def explain(invalid: ValidationError, origin: Origin, root: type[BaseModel] = PipelineSpec) -> list[Problem]:
    """`root` is the model that found it invalid."""
    reports = invalid.errors(include_url=False)
    misspelled = set(_misspelled_keys(reports, root))
    problems = []
    for report in reports:
        path, model = _place(report["loc"], root)
        # `toppic: orders` is one mistake, although `topic` is also missing because of it.
        if report["type"] == "missing" and path in misspelled:
            continue
        # A list whose only item is wrong has, to pydantic, no item; and a wrong key leaves others underived.
        if (report["type"] == "too_short" and report["input"]) or report["type"] == "default_factory_not_called":
            continue
        if report["type"] == REFUSED:
            path += tuple(_part(part) for part in report["ctx"]["key"].split(".", _dots_of_path(report["ctx"]["key"])))
        problems.append(origin.problem(path, _message(report, path, model, origin)))
    return sorted(problems, key=lambda problem: problem.line)


def _dots_of_path(key: str) -> int:
    """An option's own name may have dots; the keys above it have none."""
    return 1 if key.startswith(("options.", "spark.")) else -1


def _part(text: str) -> str | int:
    return int(text) if text.isdigit() else text


def _misspelled_keys(reports: Sequence[Any], root: type[BaseModel]) -> Iterator[KeyPath]:
    for report in reports:
        if report["type"] == "extra_forbidden":
            path, model = _place(report["loc"], root)
            resembled = nearest(str(path[-1]), remedies.keys(model))
            if resembled is not None:
                yield (*path[:-1], resembled)


def _place(location: Sequence[str | int], root: type[BaseModel]) -> tuple[KeyPath, type[BaseModel]]:
    """The key path without pydantic's tags, and the model that the last of them leads to."""
    model = root
    path: list[str | int] = []
    for part in location:
        if part in MODEL_OF_TAG:
            model = MODEL_OF_TAG[str(part)]
        elif not (isinstance(part, str) and _is_noise(part)):
            path.append(part)
    return tuple(path), model


def _is_noise(part: str) -> bool:
    """What pydantic puts into a place for a choice of its own: our tag for words, names of types, `[key]`."""
    return part in ("a word", "by partition", "[key]") or part.startswith(("literal[", "dict[", "function-"))


def _message(report: Any, path: KeyPath, model: type[BaseModel], origin: Origin) -> str:
    kind = report["type"]
    context: Mapping[str, Any] = report.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        belongs = remedies.for_unknown_key(str(path[-1]), path, model)
        return f"unknown key here; it {belongs}" if belongs else unknown_key(str(path[-1]), remedies.keys(model))
    if kind == REFUSED:
        return str(context["text"])
    if kind == "literal_error":
        return _not_one_of(report["input"], str(context["expected"]), path, origin)
    if kind == "value_error":
        # The message may repeat the value; where it may not, the checks in spec_values.py do not either.
        return _without_secret(str(context["error"]), report["input"], path, origin)
    if kind == "choice":
        remedy = remedies.for_kind(path, report["input"], _shown_text(report["input"], path, origin))
        return f"{report['msg']}, got {_got(report['input'], path, origin)}{remedy}"
    if kind in ("greater_than", "greater_than_equal"):
        bound = f"more than {context['gt']}" if kind == "greater_than" else f"at least {context['ge']}"
        return f"must be {bound}, got {_got(report['input'], path, origin)}"
    if kind == "too_short":
        return "is empty"
    expected = _EXPECTED.get(kind)
    if expected is None:
        return str(report["msg"])
    remedy = remedies.for_type(path, kind, report["input"], _shown_text(report["input"], path, origin))
    return f"expected {expected}, got {_got(report['input'], path, origin)}{remedy}"


def unknown_key(key: str, known: Sequence[str]) -> str:
    resembled = nearest(key, known)
    remedy = f" (did you mean {resembled!r}?)" if resembled else f"; the keys here are {', '.join(known)}"
    return f"unknown key{remedy}"


def _not_one_of(value: Any, expected: str, path: KeyPath, origin: Origin) -> str:
    if expected == "True":
        return "can only be true"
    words = expected.replace(" or ", ", ").replace("'", "").split(", ")
    resembled = nearest(value, words) if isinstance(value, str) else None
    text = _shown_text(value, path, origin)
    hint = f" (did you mean {resembled!r}?)" if resembled else remedies.for_word(path, text) if text else ""
    return f"{_got(value, path, origin)} is not one of {', '.join(words)}{hint}".removeprefix("the text ")


def _without_secret(message: str, value: Any, path: KeyPath, origin: Origin) -> str:
    shown = origin.shown(path, value)
    if isinstance(value, str) and shown != value:
        return message.replace(repr(value), repr(shown) if shown is not None else "the value")
    return message


def _shown_text(value: Any, path: KeyPath, origin: Origin) -> str | None:
    """A text as its author wrote it, if it is one that may be shown."""
    shown = origin.shown(path, value) if isinstance(value, str) else None
    return shown if shown and len(shown) <= _VALUE_LENGTH_MAX and "\n" not in shown else None


def _got(value: Any, path: KeyPath, origin: Origin) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"a mapping with the keys {', '.join(map(str, value))}" if value else "an empty mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    shown = origin.shown(path, value)
    if shown is None:
        return "something else"
    if len(shown) > _VALUE_LENGTH_MAX:
        shown = shown[:_VALUE_LENGTH_MAX] + "..."
    if isinstance(value, str):
        return f"the text {shown!r}"
    return f"the number {shown}" if isinstance(value, int | float) else f"{type(value).__name__} {shown}"
