"""Exceptions of an author's functions that Spark calls for rows (UDFs), as one line: file, line, function, exception.

Spark carries an exception of its Python workers as the text of a traceback, inside the messages of its own exceptions.
Owns the reading of that text. It must not know Spark: a failure arrives as text.
"""

from __future__ import annotations

import re
from typing import Final

_WORKER: Final = "PythonException"
_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+?)\s*$', re.MULTILINE)
_EXCEPTION: Final = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", re.MULTILINE)
# Frames of libraries; an author's file is in none of these.
_LIBRARIES: Final = ("site-packages", "/pyspark/", "/penstock/", "/lib/python3", "<frozen")


def function_failure(text: str) -> str | None:
    """None unless a Python worker failed in a file of the author's."""
    if _WORKER not in text:
        return None
    plain = text.replace("\\n", "\n")
    _, found, trace = plain.rpartition(_TRACEBACK)
    if not found:
        return None
    frames = list(_FRAME.finditer(trace))
    own = [frame for frame in frames if not any(part in frame[1] for part in _LIBRARIES)]
    if not own:
        return None
    file, line, function = own[-1].groups()
    return f"{file} line {line} in {function}: {_exception(trace[frames[-1].end() :])}"


def _exception(behind_frames: str) -> str:
    """The first line that is not indented as source code is."""
    for line in behind_frames.splitlines():
        found = _EXCEPTION.match(line.rstrip("'\" "))
        if found:
            return " ".join(line.rstrip("'").split())
    return "an exception without a message"
