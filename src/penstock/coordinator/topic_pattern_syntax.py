"""Parses RE2's syntax into a tree. Only characters of topic names matter, which makes character classes finite sets.

As in RE2, backreferences and lookarounds are not supported. Deliberately omitted: Unicode classes such as \\p{Greek},
except the few that contain ASCII characters; no topic name has a character of the others.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

TOPIC_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")

_REPEAT_MAX: Final = 1000  # RE2's limit
_NESTING_MAX: Final = 50
_REPEAT: Final = re.compile(r"\{(\d{1,6})(,(\d{0,6}))?\}")
_GROUP_NAME: Final = re.compile(r"P?<([A-Za-z_][A-Za-z0-9_]*)>")
_FLAGS: Final = re.compile(r"([imsU]*)(?:-([imsU]+))?([:)])")
_HEXADECIMAL: Final = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_UNICODE_CLASS: Final = re.compile(r"([pP])(?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_PUNCTUATION: Final = frozenset("._-")
_NAMED_CLASSES: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": TOPIC_CHARACTERS,
    "blank": frozenset[str](),
    "cntrl": frozenset[str](),
    "digit": frozenset(string.digits),
    "graph": TOPIC_CHARACTERS,
    "lower": frozenset(string.ascii_lowercase),
    "print": TOPIC_CHARACTERS,
    "punct": _PUNCTUATION,
    "space": frozenset[str](),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_PERL_CLASSES: Final = {"d": frozenset(string.digits), "w": _WORD, "s": frozenset[str]()}
_UNICODE_CLASSES: Final = {
    "L": frozenset(string.ascii_letters),
    "Lu": frozenset(string.ascii_uppercase),
    "Ll": frozenset(string.ascii_lowercase),
    "N": frozenset(string.digits),
    "Nd": frozenset(string.digits),
    "P": _PUNCTUATION,
}
_CONTROL_ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


class PatternError(Exception):
    """Why a pattern is invalid; the text completes a sentence."""


class Assertion(Enum):
    AT_START = "start"
    AT_END = "end"
    AT_WORD_BOUNDARY = "boundary"
    INSIDE_WORD = "inside"

    def holds(self, before: bool | None, after: bool | None) -> bool:
        """`before` and `after`: whether that character is a word character; None at the start or end of the name."""
        if self is Assertion.AT_START:
            return before is None
        if self is Assertion.AT_END:
            return after is None
        return (bool(before) != bool(after)) is (self is Assertion.AT_WORD_BOUNDARY)


@dataclass(frozen=True, slots=True)
class Characters:
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    choices: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    repeated: Node
    minimum: int
    maximum: int | None


Node: TypeAlias = Characters | Assertion | Sequence | Alternatives | Repeat


def parse(pattern: str) -> Node:
    """Raises PatternError."""
    parser = _Parser(pattern)
    node = parser.alternatives(depth=0)
    if not parser.at_end:
        raise PatternError("a ')' has no matching '('")
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._ignores_case = False

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._pattern)

    def alternatives(self, depth: int) -> Node:
        if depth > _NESTING_MAX:
            raise PatternError(f"groups are nested deeper than {_NESTING_MAX}")
        ignores_case_outside = self._ignores_case
        choices = [self._sequence(depth)]
        while self._take("|"):
            choices.append(self._sequence(depth))
        self._ignores_case = ignores_case_outside
        return choices[0] if len(choices) == 1 else Alternatives(tuple(choices))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while not self.at_end and self._peek() not in "|)":
            if self._take("\\Q"):
                parts.extend(self._literal(character) for character in self._quoted())
                continue
            atom = self._atom(depth)
            if atom is not None:
                parts.append(self._repeated(atom))
        return Sequence(tuple(parts))

    def _quoted(self) -> str:
        end = self._pattern.find("\\E", self._position)
        end = len(self._pattern) if end < 0 else end
        text = self._pattern[self._position : end]
        self._position = end + len("\\E")
        return text

    def _atom(self, depth: int) -> Node | None:
        """None for syntax that matches nothing, such as flags."""
        character = self._next()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return Characters(self._class())
        if character == ".":
            return Characters(TOPIC_CHARACTERS)
        if character == "^":
            return Assertion.AT_START
        if character == "$":
            return Assertion.AT_END
        if character in "*+?":
            raise PatternError(f"{character!r} has nothing to repeat")
        if character == "\\":
            return self._escape()
        return self._literal(character)

    def _group(self, depth: int) -> Node | None:
        ignores_case_outside = self._ignores_case
        if self._take("?") and not self._match(_GROUP_NAME):
            flags = self._match(_FLAGS)
            if flags is None:
                raise PatternError("this '(?' group is not supported")
            if "i" in flags[1]:
                self._ignores_case = True
            if "i" in (flags[2] or ""):
                self._ignores_case = False
            if flags[3] == ")":
                return None
        node = self.alternatives(depth + 1)
        if not self._take(")"):
            raise PatternError("a '(' is not closed")
        self._ignores_case = ignores_case_outside
        return node

    def _repeated(self, atom: Node) -> Node:
        if (bounds := self._bounds()) is None:
            return atom
        self._take("?")  # lazy matching does not change whether a name matches
        if self._bounds() is not None:
            raise PatternError("a repetition cannot be repeated")
        minimum, maximum = bounds
        if max(minimum, maximum or 0) > _REPEAT_MAX or (maximum is not None and maximum < minimum):
            raise PatternError("the bounds of a repetition are not valid")
        return Repeat(atom, minimum, maximum)

    def _bounds(self) -> tuple[int, int | None] | None:
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if self._take("?"):
            return 0, 1
        if (counted := self._match(_REPEAT)) is not None:
            minimum = int(counted[1])
            if counted[2] is None:
                return minimum, minimum
            return minimum, int(counted[3]) if counted[3] else None
        return None

    def _escape(self) -> Node:
        for letter, assertion in _ASSERTIONS.items():
            if self._take(letter):
                return assertion
        return self._class_escape() or self._literal(self._escaped_character())

    def _class_escape(self) -> Characters | None:
        """A class such as \\d or \\pL, after its backslash."""
        if self.at_end:
            raise PatternError("it ends in a backslash")
        letter = self._peek()
        if letter.lower() in _PERL_CLASSES:
            self._position += 1
            return Characters(_negated_if(letter.isupper(), _PERL_CLASSES[letter.lower()]))
        if (found := self._match(_UNICODE_CLASS)) is not None:
            name = found[3] or found[4]
            if name not in _UNICODE_CLASSES:
                raise PatternError(f"the character class {name!r} is not supported")
            return Characters(_negated_if((found[1] == "P") is not (found[2] == "^"), _UNICODE_CLASSES[name]))
        return None

    def _escaped_character(self) -> str:
        if (hexadecimal := self._match(_HEXADECIMAL)) is not None:
            code = int(hexadecimal[1] or hexadecimal[2], 16)
            if code > 0x10FFFF:
                raise PatternError(f"the character {code:#x} does not exist")
            return chr(code)
        if self.at_end:
            raise PatternError("it ends in a backslash")
        letter = self._next()
        if letter in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[letter]
        if letter.isascii() and letter.isalnum():
            raise PatternError(f"the escape \\{letter} is not supported")
        return letter

    def _class(self) -> frozenset[str]:
        negated = self._take("^")
        members: set[str] = set()
        first = True
        while first or not self._take("]"):
            first = False
            if self.at_end:
                raise PatternError("a '[' is not closed")
            if (posix := self._match(_POSIX_CLASS)) is not None:
                if posix[2] not in _NAMED_CLASSES:
                    raise PatternError(f"the character class {posix[2]!r} is unknown")
                members |= _negated_if(bool(posix[1]), _NAMED_CLASSES[posix[2]])
                continue
            if self._peek() == "\\":
                self._position += 1
                if (escaped := self._class_escape()) is not None:
                    members |= escaped.members
                    continue
                self._position -= 1
            low = self._class_character()
            high = low
            if self._pattern[self._position : self._position + 1] == "-" and not self._pattern.startswith(
                "-]", self._position
            ):
                self._position += 1
                high = self._class_character()
            if high < low:
                raise PatternError(f"the range {low}-{high} is reversed")
            members |= self._with_case({character for character in TOPIC_CHARACTERS if low <= character <= high})
        return _negated_if(negated, frozenset(members))

    def _class_character(self) -> str:
        if self.at_end:
            raise PatternError("a '[' is not closed")
        character = self._next()
        return self._escaped_character() if character == "\\" else character

    def _literal(self, character: str) -> Characters:
        return Characters(self._with_case({character}))

    def _with_case(self, characters: set[str]) -> frozenset[str]:
        if self._ignores_case:
            characters = characters | {character.swapcase() for character in characters}
        return frozenset(characters)

    def _peek(self) -> str:
        return self._pattern[self._position]

    def _next(self) -> str:
        character = self._pattern[self._position]
        self._position += 1
        return character

    def _take(self, text: str) -> bool:
        if self._pattern.startswith(text, self._position):
            self._position += len(text)
            return True
        return False

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._pattern, self._position)
        if found is not None:
            self._position = found.end()
        return found


_ASSERTIONS: Final = {
    "A": Assertion.AT_START,
    "z": Assertion.AT_END,
    "b": Assertion.AT_WORD_BOUNDARY,
    "B": Assertion.INSIDE_WORD,
}


def _negated_if(negated: bool, members: frozenset[str]) -> frozenset[str]:
    return TOPIC_CHARACTERS - members if negated else members
