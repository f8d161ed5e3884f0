"""Relative paths of a pipeline, made absolute.

A pipeline may run in an engine, and its tasks in processes, that were started in other directories. A relative path
means the directory in which the command was given. Paths with a scheme (hdfs://, s3a://) are left alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def absolute_path(path: str, directory: Path) -> str:
    return path if _SCHEME.match(path) else str((directory / path).absolute())
