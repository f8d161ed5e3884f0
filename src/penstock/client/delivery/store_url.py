"""The database of a store as a URL, for command lines: `sqlite:///results.db`, `postgresql://host/database`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.client.delivery.database_store import DatabaseStore
from penstock.core.errors import InvalidClientSetting

_SQLITE: Final = "sqlite:///"
_POSTGRES: Final = ("postgresql://", "postgres://")


def store_at(url: str) -> DatabaseStore:
    """The store of an existing database. Raises InvalidClientSetting for any other URL."""
    if url.startswith(_SQLITE):
        from penstock.client.delivery.sqlite_store import SQLiteStore

        path = Path(url.removeprefix(_SQLITE))
        if not path.is_file():
            raise InvalidClientSetting(
                f"{url}: there is no file {path}; an absolute path has four slashes: sqlite:////"
            )
        return SQLiteStore(path)
    if url.startswith(_POSTGRES):
        from penstock.client.delivery.postgres_store import PostgresStore

        return PostgresStore(url)
    raise InvalidClientSetting(f"{url}: expected sqlite:///FILE or postgresql://HOST/DATABASE")
