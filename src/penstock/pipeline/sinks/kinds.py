"""The kinds of sinks. A new kind is a package here and a line in SINKS; validation, documentation's schema, running and
the conformance suite follow from the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.pipeline.declaration.choice import union_by_key
from penstock.pipeline.sinks.console.declaration import ConsoleSink
from penstock.pipeline.sinks.files.declaration import FileSink
from penstock.pipeline.sinks.function.declaration import FunctionSink
from penstock.pipeline.sinks.sink import Sink
from penstock.pipeline.sinks.table.declaration import TableSink
from penstock.pipeline.sinks.topic.declaration import TopicSink

SINKS: Final[tuple[type[Sink], ...]] = (TopicSink, TableSink, FileSink, ConsoleSink, FunctionSink)

if TYPE_CHECKING:
    DeclaredSink = Sink
else:
    DeclaredSink = union_by_key("sink", {kind.discriminator: kind for kind in SINKS}, [kind.spelling for kind in SINKS])
"""The type of a field that holds a sink."""
