"""Secrets that a pipeline is given, and texts without them.

Messages of Spark, of databases and of the author's own functions may repeat any value. Every text that is shown or
reported is redacted first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

_SECRET_NAME: Final = re.compile(
    r"password|passphrase|secret|token|jaas|credential|(?:^|\.)key$|keystore", re.IGNORECASE
)
_LENGTH_MIN: Final = 3  # a shorter one is part of ordinary words
_INSTEAD: Final = "***"


def secrets_in_options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if _SECRET_NAME.search(name):
            yield str(value)


def secrets_in_url(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    if parts.password:
        yield parts.password
        yield unquote(parts.password)
    for name, value in parse_qsl(parts.query):
        if _SECRET_NAME.search(name):
            yield value


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets. A secret of one or two characters is left: it is part of ordinary words."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LENGTH_MIN:
            text = text.replace(secret, _INSTEAD)
    return text


def redacted_url(url: str) -> str:
    """The URL without its password, as it may be shown."""
    parts = urlsplit(url)
    if parts.password is None and "password" not in parts.query:
        return url
    user = parts.username or ""
    host = parts.netloc.rpartition("@")[2]
    query = re.sub(r"(?i)([^&]*password[^&=]*=)[^&]*", r"\1***", parts.query)
    netloc = f"{user}:***@{host}" if parts.password is not None else parts.netloc
    return urlunsplit(parts._replace(netloc=netloc, query=query))
