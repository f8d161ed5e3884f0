"""The databases that JDBC connectors know."""

from __future__ import annotations

from typing import Final

from penstock.connect.connectors.jdbc.dialects.dialect import JdbcDialect
from penstock.connect.connectors.jdbc.dialects.mariadb import MariaDbJdbcDialect
from penstock.connect.connectors.jdbc.dialects.postgres import PostgresJdbcDialect
from penstock.connect.connectors.jdbc.dialects.sqlite import SqliteJdbcDialect

DIALECTS: Final[tuple[JdbcDialect, ...]] = (PostgresJdbcDialect(), MariaDbJdbcDialect(), SqliteJdbcDialect())
