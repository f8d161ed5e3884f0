"""Java's regular expressions and replacements, on Python's `re`.

Owns the translation of what is written differently. It must not know records. What `re` cannot do is refused when the
expression is compiled: intersections of character classes (`[a-z&&[^b]]`), and properties of characters beyond POSIX's.
"""

from __future__ import annotations

import re
from typing import Final

INDEX_OUT_OF_BOUNDS: Final = "java.lang.IndexOutOfBoundsException"

_POSIX: Final = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": "\\x00-\\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": " \\t", "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F", "Space": " \\t\\n\\x0b\\f\\r",
}  # fmt: skip
_OUTSIDE: Final = {
    "z": r"\Z",
    "Z": r"(?=\n?\Z)",
    "R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])",
    "h": r"[ \t\xa0]",
    "e": r"\x1b",
}


class ReplacementError(Exception):
    """The replacement names a group that the expression does not have. `java_class` is what Java throws."""

    def __init__(self, message: str, java_class: str = "java.lang.IllegalArgumentException") -> None:
        super().__init__(message)
        self.java_class = java_class


def compile_java(expression: str) -> re.Pattern[str]:
    """Raises re.error. `\\d`, `\\w` and `\\b` mean ASCII, as in Java."""
    result, position, in_class = "", 0, 0
    while position < len(expression):
        letter = expression[position]
        if letter == "\\":
            piece, position = _escape(expression, position, in_class=in_class > 0)
            result += piece
            continue
        if in_class and expression.startswith("&&", position):
            raise re.error("intersections of character classes are not supported", expression, position)
        if letter == "[":
            if in_class:
                raise re.error("a character class inside another is not supported", expression, position)
            in_class += 1
            if expression[position + 1 : position + 2] == "^":
                result, position = result + "[", position + 1
                letter = "^"
        elif letter == "]" and in_class:
            in_class -= 1
        elif letter == "(" and not in_class and re.match(r"\(\?<[a-zA-Z]", expression[position:]):
            result, position = result + "(?P<", position + 3
            continue
        result, position = result + letter, position + 1
    return re.compile(result, re.ASCII)


def _escape(expression: str, position: int, *, in_class: bool) -> tuple[str, int]:
    letter = expression[position + 1 : position + 2]
    if letter == "Q":
        end = expression.find("\\E", position + 2)
        end = len(expression) if end < 0 else end
        return re.escape(expression[position + 2 : end]), end + 2
    if letter in ("p", "P"):
        found = re.match(r"\{(?:Is)?(\w+)\}", expression[position + 2 :])
        if found is None or found[1] not in _POSIX or (letter == "P" and in_class):
            raise re.error("this property of characters is not supported", expression, position)
        members = _POSIX[found[1]]
        if in_class:
            return members, position + 2 + found.end()
        return f"[{'^' if letter == 'P' else ''}{members}]", position + 2 + found.end()
    if letter == "k":
        found = re.match(r"<(\w+)>", expression[position + 2 :])
        if found is not None:
            return f"(?P={found[1]})", position + 2 + found.end()
    if not in_class and letter in _OUTSIDE:
        return _OUTSIDE[letter], position + 2
    if letter.isascii() and not letter.isalnum():
        return re.escape(letter), position + 2
    return expression[position : position + 2], position + 2


def replace_first(pattern: re.Pattern[str], text: str, replacement: str) -> str:
    """As Matcher.replaceFirst: `$1`, `${name}`, and a backslash before what stands for itself."""
    found = pattern.search(text)
    if found is None:
        return text
    return text[: found.start()] + _expand(found, replacement) + text[found.end() :]


def _expand(found: re.Match[str], replacement: str) -> str:
    result, position = "", 0
    while position < len(replacement):
        letter = replacement[position]
        if letter == "\\":
            if position + 1 == len(replacement):
                raise ReplacementError("character to be escaped is missing")
            result, position = result + replacement[position + 1], position + 2
        elif letter == "$":
            group, position = _group(found, replacement, position + 1)
            result += group
        else:
            result, position = result + letter, position + 1
    return result


def _group(found: re.Match[str], replacement: str, position: int) -> tuple[str, int]:
    if position == len(replacement):
        raise ReplacementError("Illegal group reference: group index is missing")
    if replacement[position] == "{":
        name = re.match(r"[a-zA-Z0-9]*", replacement[position + 1 :])
        assert name is not None
        if not name[0]:
            raise ReplacementError("named capturing group is missing trailing '}'")
        end = position + 1 + name.end()
        if replacement[end : end + 1] != "}":
            raise ReplacementError("named capturing group is missing trailing '}'")
        if name[0][0].isdigit():
            raise ReplacementError(f"capturing group name {{{name[0]}}} starts with digit character")
        if name[0] not in found.re.groupindex:
            raise ReplacementError(f"No group with name {{{name[0]}}}")
        return found[name[0]] or "", end + 1
    if replacement[position] not in "0123456789":
        raise ReplacementError("Illegal group reference")
    number, end = int(replacement[position]), position + 1
    if number > found.re.groups:
        raise ReplacementError(f"No group {number}", INDEX_OUT_OF_BOUNDS)
    # Further digits belong to the number as long as there is such a group.
    while replacement[end : end + 1] in tuple("0123456789") and number * 10 + int(replacement[end]) <= found.re.groups:
        number, end = number * 10 + int(replacement[end]), end + 1
    return found[number] or "", end
