"""Passwords that a pipeline was given, and texts without them.

Messages of Spark, of databases and of the author's own functions may repeat anything. What is shown or reported passes
through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.pipeline.declaration.sink_spec import FileSink, TableSink, TopicSink
from penstock.pipeline.declaration.source_spec import FileSource, TableSource, TopicSource
from penstock.pipeline.declaration.spec import PipelineSpec

_SECRET_NAME: Final = re.compile(
    r"password|passphrase|secret|token|jaas|credential|(?:^|\.)key$|keystore", re.IGNORECASE
)
_LENGTH_MIN: Final = 3  # a shorter one is part of ordinary words
_INSTEAD: Final = "***"


def secrets_of(spec: PipelineSpec) -> frozenset[str]:
    found: set[str] = set(_in_options(spec.spark))
    for endpoint in (*spec.all_sources.values(), spec.sink):
        if isinstance(endpoint, TopicSource | FileSource | TopicSink | FileSink):
            found |= set(_in_options(endpoint.options))
        elif isinstance(endpoint, TableSource | TableSink):
            found |= set(_in_url(endpoint.url))
    return frozenset(secret for secret in found if len(secret) >= _LENGTH_MIN)


def concealed(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _INSTEAD)
    return text


def _in_options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if _SECRET_NAME.search(name):
            yield str(value)


def _in_url(url: str) -> Iterator[str]:
    password = urlsplit(url).password
    if password:
        yield password
        yield unquote(password)
