"""JDBC's URLs, as `connection.url` writes them, to the URLs of this project's database drivers.

Owns which options of a JDBC URL mean something here. Options that only tune a Java driver are accepted and have no
effect; every other one that is not supported is refused by its name.

Invariant: no message shows the URL, which may hold a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from penstock.connect.config.definition import ConfigException
from penstock.connect.connectors.jdbc.dialects.dialect import JdbcDialect
from penstock.connect.connectors.jdbc.dialects.kinds import DIALECTS
from penstock.pipeline.sinks.table.databases import checked_url

_URL: Final = "connection.url"
_PREFIX: Final = "jdbc:"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is, and who connects."""

    url: str = field(repr=False)
    dialect: JdbcDialect


def address(values: Mapping[str, Any], user: str = "connection.user") -> Address:
    """Of parsed properties. Raises ConfigException, whose text never shows the URL."""
    text = str(values[_URL])
    if not text.startswith(_PREFIX):
        raise _wrong("it must begin with 'jdbc:', as in 'jdbc:postgresql://host:5432/database'")
    subprotocol, _, rest = text.removeprefix(_PREFIX).partition(":")
    dialect = next((each for each in DIALECTS if subprotocol in each.subprotocols), None)
    if dialect is None:
        known = ", ".join(name for each in DIALECTS for name in each.subprotocols)
        raise _wrong(f"the database '{subprotocol}' is not supported; databases are {known}")
    named = values.get("dialect.name")
    if named and named not in dialect.class_names:
        raise ConfigException(
            f"Invalid value {named} for configuration dialect.name: connection.url is for"
            f" {dialect.class_names[0]}; leave dialect.name empty",
            "dialect.name",
        )
    if dialect.is_file:
        return Address(_file_url(rest), dialect)
    return Address(_server_url(rest, dialect, values.get(user), values.get("connection.password")), dialect)


def _file_url(rest: str) -> str:
    path = rest.partition("?")[0].removeprefix("file:")
    if not path or path.startswith(":memory:"):
        raise _wrong("name a file, as in 'jdbc:sqlite:/data/orders.db'; a database in memory is gone with its process")
    return f"sqlite:///{Path(path).absolute()}"


def _server_url(rest: str, dialect: JdbcDialect, user: str | None, password: str | None) -> str:
    try:
        parts = urlsplit(f"x:{rest}" if rest.startswith("//") else f"x://localhost/{rest}")
        _ = parts.port
    except ValueError:
        raise _wrong("host and port cannot be read; write 'jdbc:postgresql://host:5432/database'") from None
    if "," in parts.netloc:
        raise _wrong("it names several hosts; name the one that takes writes")
    options: dict[str, str] = dict(dialect.default_options)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "user":
            user = user or value
        elif name == "password":
            password = password or value
        elif name in dialect.url_options:
            options.update(dialect.url_options[name](value))
        elif name not in dialect.tuning_options:
            raise _wrong(f"its option '{name}' is not supported; remove it")
    host = parts.netloc.rpartition("@")[2] or "localhost"
    who = "" if user is None else quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}")
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    url = f"{dialect.base.schemes[0]}://{who}{'@' if who else ''}{host}{parts.path}{query}"
    try:
        return checked_url(url)
    except ValueError as mistake:
        raise _wrong(str(mistake)) from None


def _wrong(why: str) -> ConfigException:
    return ConfigException(f"Invalid value for configuration {_URL}: {why}", _URL)
