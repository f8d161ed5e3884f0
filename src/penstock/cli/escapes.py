"""Backslash escapes in delimiters and formats, as kcat reads them."""

from __future__ import annotations

import re
from typing import Final

from penstock.cli.command_error import usage_error

_NAMED: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.)|$)", re.DOTALL)


def unescape(text: str, option: str) -> bytes:
    """`\\n \\r \\t \\0 \\\\ \\xHH` become the bytes they name; everything else stays, as UTF-8."""

    def replace(escape: re.Match[bytes]) -> bytes:
        if escape[1] is not None:
            return bytes([int(escape[1], 16)])
        letter = (escape[2] or b"").decode("latin-1")
        if letter not in _NAMED:
            raise usage_error(f"{option} '{text}': unknown escape '\\{letter}' (known: \\n \\r \\t \\0 \\\\ \\xHH)")
        return _NAMED[letter].encode()

    return _ESCAPE.sub(replace, text.encode("utf-8", "surrogateescape"))


def delimiter(text: str, option: str) -> bytes:
    unescaped = unescape(text, option)
    if not unescaped:
        raise usage_error(f"{option}: the delimiter is empty")
    return unescaped
