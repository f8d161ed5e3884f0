"""The table that a pipeline writes, the mode, and the run that writes: decided by the driver, known to all tasks.

Owns the options of the data source that carry it. It must never know a connection.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from penstock.core.guarantee import Guarantee
from penstock.pipeline.sinks.table.databases import dialect_of
from penstock.pipeline.sinks.table.dialects.dialect import Dialect
from penstock.pipeline.sinks.table.errors import TableRefused

Mode = Literal["append", "upsert"]
_KAFKA: Final = "kafka."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """`run` names one start of the pipeline; it owns the table's ledger until another run claims it."""

    url: str = field(repr=False)
    table: str
    mode: Mode
    key: tuple[str, ...] = ()
    pipeline: str
    run: str
    guarantee: Guarantee = "exactly_once"
    checkpoint: str | None = None  # a local directory; the ledger then also shows the source's offsets
    receiver: str | None = None  # the driver's socket for rows, where tasks can reach it
    dead_letters: str | None = None  # the topic that rows of the outbox are published to
    kafka: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # the wire client's settings for that
    deletes: bool = False  # rows have the column DELETED
    json_columns: tuple[str, ...] = ()  # columns whose text is JSON
    adds_columns: bool = False  # columns that an existing table does not have are added to it

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.url)

    @property
    def short_id(self) -> str:
        """Tells the staging of pipelines apart, in few characters."""
        return f"{zlib.crc32(self.pipeline.encode()):08x}"

    def options(self) -> dict[str, str]:
        """For `writeStream.format("penstock_table").options(**target.options())`."""
        options = {
            "url": self.url,
            "table": self.table,
            "mode": self.mode,
            "key": _joined(self.key),
            "json_columns": _joined(self.json_columns),
            "deletes": str(self.deletes).lower(),
            "adds_columns": str(self.adds_columns).lower(),
            "pipeline": self.pipeline,
            "run": self.run,
            "guarantee": self.guarantee,
            **{_KAFKA + name: value for name, value in self.kafka},
        }
        if self.checkpoint is not None:
            options["checkpoint"] = self.checkpoint
        if self.receiver is not None:
            options["row_receiver"] = self.receiver
        if self.dead_letters is not None:
            options["dead_letters"] = self.dead_letters
        return options

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> TableTarget:
        missing = [name for name in ("url", "table", "pipeline", "run") if not options.get(name)]
        if missing:
            raise TableRefused(f"option {missing[0]} is missing")
        mode = _one_of("mode", options.get("mode", "append"), ("append", "upsert"))
        guarantee = _one_of(
            "guarantee",
            options.get("guarantee", "exactly_once"),
            ("exactly_once", "at_least_once", "at_most_once"),
        )
        return cls(
            url=options["url"],
            table=options["table"],
            mode=cast(Mode, mode),
            key=tuple(_split(options.get("key", ""))),
            json_columns=tuple(_split(options.get("json_columns", ""))),
            deletes=options.get("deletes") == "true",
            adds_columns=options.get("adds_columns") == "true",
            pipeline=options["pipeline"],
            run=options["run"],
            guarantee=cast(Guarantee, guarantee),
            checkpoint=options.get("checkpoint"),
            receiver=options.get("row_receiver"),
            dead_letters=options.get("dead_letters"),
            kafka=tuple(
                sorted(
                    (name[len(_KAFKA) :].lower(), value)
                    for name, value in options.items()
                    if name.lower().startswith(_KAFKA)
                )
            ),
        )


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise TableRefused(f"option {name}={value}: expected {', '.join(known)}")
    return value


def _joined(names: Iterable[str]) -> str:
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in names)


def _split(text: str) -> list[str]:
    """Names separated by commas; a backslash takes the comma behind it into the name."""
    names, name, escaped = [], "", False
    for character in text:
        if escaped or character not in "\\,":
            name, escaped = name + character, False
        elif character == "\\":
            escaped = True
        else:
            names.append(name)
            name = ""
    return [*names, name] if text else []
