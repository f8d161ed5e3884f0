"""`delete_when`: the key of sinks in which a row may delete an earlier one, and what its condition does to columns."""

from __future__ import annotations

from collections.abc import Sequence


def column_named(condition: str, columns: Sequence[str]) -> str | None:
    """The column that a condition consists of; None for any other condition.

    Such a column says only whether a row deletes, so it is not written with the others.
    """
    name = condition.strip().removeprefix("`").removesuffix("`")
    return next((column for column in columns if column.lower() == name.lower()), None)
