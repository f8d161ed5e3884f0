"""What happens to rows between source and sink, as its author says it: SQL, or a Python function, step by step.

Owns the spellings of a step and the one form that they all become. It must never know how a step is carried out
(`transform_chain.py`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Discriminator, Field, Tag

from penstock.pipeline.declaration.choice import choose_by_key
from penstock.pipeline.declaration.spec_values import FunctionReference, Query, Settings, SqlName

_STEP_KEYS: Final = frozenset({"name", "sql", "python", "inputs"})


class SqlStep(Settings):
    """A SQL query over the sources and the steps before it."""

    name: SqlName | None = Field(default=None, description="What later steps call its rows.", examples=["cleaned"])
    sql: Query = Field(description="The query.", examples=["SELECT * FROM source WHERE amount > 0"])


class PythonStep(Settings):
    """A Python function from DataFrame to DataFrame."""

    name: SqlName | None = Field(default=None, description="What later steps call its rows.", examples=["enriched"])
    python: FunctionReference = Field(
        description="The function. Its module is looked for beside the pipeline's file first.",
        examples=["my_module:enrich"],
    )
    inputs: tuple[SqlName, ...] | None = Field(
        default=None,
        min_length=1,
        description="The sources or steps that it is given: one as a DataFrame, several as a dict of DataFrames by"
        " name. Without it: the step before, or the sources.",
    )


_CHOICE: Final = choose_by_key({"sql": ("step by sql", SqlStep), "python": ("step by python", PythonStep)})
AnyStep = SqlStep | PythonStep
Step = Annotated[
    Annotated[SqlStep, Tag("step by sql")] | Annotated[PythonStep, Tag("step by python")],
    Discriminator(
        _CHOICE,
        custom_error_type="choice",
        custom_error_message="expected {name: SELECT ...}, {name: ..., sql: ...} or {python: 'module:function'}",
    ),
]


def spelled_out(value: Any) -> Any:
    """A query alone is one step; a mapping alone is one step; `{name: query}` is `{name: name, sql: query}`."""
    if isinstance(value, str):
        value = [{"sql": value}]
    elif isinstance(value, dict | SqlStep | PythonStep):
        value = [value]
    if not isinstance(value, list | tuple):
        return value
    return [_spelled_out_step(step) for step in value]


def _spelled_out_step(step: Any) -> Any:
    if isinstance(step, str):
        return {"sql": step}
    if isinstance(step, dict) and len(step) == 1:
        [(name, query)] = step.items()
        if name not in _STEP_KEYS:
            return {"name": name, "sql": query}
    return step


# For editors; a person who writes the long form gets its keys completed, and the short one is accepted.
_ShortStep = dict[SqlName, Query]
Transform = Annotated[
    tuple[Step, ...],
    BeforeValidator(
        spelled_out, json_schema_input_type=str | PythonStep | list[str | SqlStep | PythonStep | _ShortStep]
    ),
]
