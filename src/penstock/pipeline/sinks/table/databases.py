"""The databases that tables can be in, by the scheme of a URL. A new one is a package in `dialects/` and a line."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from penstock.pipeline.sinks.table.dialects.dialect import Dialect
from penstock.pipeline.sinks.table.dialects.mariadb.dialect import MariaDbDialect
from penstock.pipeline.sinks.table.dialects.postgres.dialect import PostgresDialect
from penstock.pipeline.sinks.table.dialects.sqlite.dialect import SqliteDialect

DIALECTS: Final[tuple[Dialect, ...]] = (SqliteDialect(), PostgresDialect(), MariaDbDialect())
_BY_SCHEME: Final = {scheme: dialect for dialect in DIALECTS for scheme in dialect.schemes}
DATABASES: Final = [dialect.schemes[0] for dialect in DIALECTS]


def dialect_of(url: str) -> Dialect:
    """Of a URL that was checked."""
    return _BY_SCHEME[url.partition(":")[0]]


def checked_url(url: str) -> str:
    """Raises ValueError, whose message never shows the URL: it may hold a password."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        scheme = ""
    if not scheme:
        raise ValueError("is not a URL such as 'postgresql://user@host/database' or 'sqlite:///file.db'")
    if scheme not in _BY_SCHEME:
        raise ValueError(f"databases are {', '.join(DATABASES[:-1])} and {DATABASES[-1]}, not {scheme!r}")
    _BY_SCHEME[scheme].check_url(url)
    return url
