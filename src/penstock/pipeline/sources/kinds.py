"""The kinds of sources. A new kind is a package here and a line in SOURCES."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.pipeline.declaration.choice import union_by_key
from penstock.pipeline.sources.files.declaration import FileSource
from penstock.pipeline.sources.source import Source
from penstock.pipeline.sources.table.declaration import TableSource
from penstock.pipeline.sources.topic.declaration import TopicSource

SOURCES: Final[tuple[type[Source], ...]] = (TopicSource, FileSource, TableSource)

if TYPE_CHECKING:
    DeclaredSource = Source
else:
    DeclaredSource = union_by_key(
        "source",
        {key: kind for kind in SOURCES for key in kind.discriminators},
        [kind.spelling for kind in SOURCES],
    )
"""The type of a field that holds a source."""
