"""Regular expressions over topic names, in RE2's syntax, that match in linear time whatever the pattern.

Consumers send a pattern and the broker matches it against every topic (KIP-848), on the thread that serves all clients.
Python's `re` backtracks: a pattern of ten characters and a name of forty can block it for years. So a pattern is
compiled into an automaton (`topic_pattern_syntax.py` parses it) that follows all alternatives at once.

Owns: the limits of patterns, compilation, matching. As in Kafka, a pattern must match the whole topic name.
Must never know: which topics exist.
"""

from __future__ import annotations

from typing import Final

from penstock.coordinator.topic_pattern_syntax import (
    Alternatives,
    Assertion,
    Characters,
    Node,
    PatternError,
    Repeat,
    Sequence,
    parse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

PATTERN_LENGTH_MAX: Final = 1000
INSTRUCTIONS_MAX: Final = 2000
_CACHED_STATES_MAX: Final = 2000

_MATCH: Final = -1


class TopicPattern:
    """A compiled pattern. Caches its transitions, so that similar names are matched by lookups."""

    def __init__(self, text: str) -> None:
        """Raises BrokerError(INVALID_REGULAR_EXPRESSION)."""
        try:
            if len(text) > PATTERN_LENGTH_MAX:
                raise PatternError(f"it has {len(text)} characters; at most {PATTERN_LENGTH_MAX} are allowed")
            program = _Program()
            self._start = frozenset([program.compile(parse(text), _MATCH)])
            self._program = program
        except PatternError as error:
            raise BrokerError(
                ErrorCode.INVALID_REGULAR_EXPRESSION, f"The topic pattern {text[:100]!r} is not valid: {error}."
            ) from None
        self._steps: dict[tuple[_State, str | None], _State | None] = {}

    def matches(self, name: str) -> bool:
        state: _State | None = (self._start, None)
        for character in (*name, None):
            if state is None:
                return False
            key = (state, character)
            if key not in self._steps:
                if len(self._steps) >= _CACHED_STATES_MAX:
                    self._steps.clear()
                self._steps[key] = self._program.step(state, character)
            state = self._steps[key]
        return state is not None


_State = tuple[frozenset[int], bool | None]
"""Pending instructions, and whether the previous character is a word character; None at the start."""


class _Program:
    """Numbered instructions of three kinds: consume one of a set of characters, branch, or assert."""

    def __init__(self) -> None:
        self._consume: dict[int, tuple[frozenset[str], int]] = {}
        self._fork: dict[int, tuple[int, ...]] = {}
        self._assert: dict[int, tuple[Assertion, int]] = {}
        self._count = 0

    def compile(self, node: Node, following: int) -> int:
        """The number of the first instruction of `node`; `following` is the instruction after it."""
        match node:
            case Characters(members):
                number = self._next_number()
                self._consume[number] = (members, following)
                return number
            case Assertion():
                number = self._next_number()
                self._assert[number] = (node, following)
                return number
            case Sequence(parts):
                for part in reversed(parts):
                    following = self.compile(part, following)
                return following
            case Alternatives(choices):
                number = self._next_number()
                self._fork[number] = tuple(self.compile(choice, following) for choice in choices)
                return number
            case Repeat(repeated, minimum, maximum):
                if maximum is None:
                    loop = self._next_number()
                    self._fork[loop] = (self.compile(repeated, loop), following)
                    following = loop
                else:
                    for _ in range(maximum - minimum):
                        optional = self._next_number()
                        self._fork[optional] = (self.compile(repeated, following), following)
                        following = optional
                for _ in range(minimum):
                    begin = self.compile(repeated, following)
                    if begin == following:
                        break  # it adds no instructions, so the limit on them would not end this loop
                    following = begin
                return following

    def _next_number(self) -> int:
        self._count += 1
        if self._count > INSTRUCTIONS_MAX:
            raise PatternError(f"it is too large: its repetitions expand to more than {INSTRUCTIONS_MAX} instructions")
        return self._count

    def step(self, state: _State, character: str | None) -> _State | None:
        """The state after `character`; None if the pattern cannot match. The character None ends the name."""
        pending, before = state
        after = None if character is None else _is_word(character)
        reached: set[int] = set()
        seen = set(pending)
        stack = list(pending)
        while stack:
            number = stack.pop()
            onward: tuple[int, ...] = ()
            if number == _MATCH:
                if character is None:
                    return state
            elif number in self._consume:
                members, following = self._consume[number]
                if character is not None and character in members:
                    reached.add(following)
            elif number in self._fork:
                onward = self._fork[number]
            else:
                assertion, following = self._assert[number]
                if assertion.holds(before, after):
                    onward = (following,)
            stack.extend(other for other in onward if other not in seen)
            seen.update(onward)
        return (frozenset(reached), after) if reached else None


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
