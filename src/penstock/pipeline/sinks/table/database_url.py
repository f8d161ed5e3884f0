"""The URL of a database as the value of a key: the field that table sinks and table sources share."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from penstock.pipeline.sinks.table.databases import DATABASES, checked_url

DESCRIPTION: Final = f"The database: {', '.join(DATABASES[:-1])} or {DATABASES[-1]}."

# Not part of a repr: it is where passwords live.
DatabaseUrl = Annotated[str, AfterValidator(checked_url), Field(repr=False)]
