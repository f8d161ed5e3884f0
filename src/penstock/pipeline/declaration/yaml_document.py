"""A YAML document as plain values, and where in the file each of them stands.

Owns the reading of YAML: positions, duplicate keys, `${NAME}` from the environment, and the bounds of what a file may
make us build. It must never know what the keys mean.

Invariant: what a variable was replaced with is in `value` and `secrets` only; `spelled` keeps what the author wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from penstock.pipeline.declaration.verdicts import KeyPath

# An alias may be repeated, and aliases of aliases grow without bound; no pipeline comes near this.
VALUES_MAX: Final = 100_000
DEPTH_MAX: Final = 100
_VARIABLE: Final = re.compile(r"\$(?:\$(?=\{)|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})")


_QUOTES_MISSING: Final = "; inside { } and [ ] a variable needs quotes, as in '${NAME}'"


@dataclass(frozen=True, slots=True)
class TextPosition:
    """Where a text begins that stands in the file as it is: after `|`, or on one line without escapes."""

    line: int
    column: int


@dataclass(slots=True)
class YamlDocument:
    value: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, TextPosition] = field(default_factory=dict)
    # What the author wrote, where a variable was replaced.
    spelled: dict[KeyPath, str] = field(default_factory=dict)
    # What variables hold that were replaced, and how to write it instead.
    secrets: dict[str, str] = field(default_factory=dict)


class YamlMistake(Exception):
    """What cannot be read, with its line and column (from 1; 0 is unknown)."""

    def __init__(self, message: str, line: int = 0, column: int = 0, path: KeyPath = ()) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.path = path


def read_yaml(text: str, environment: Mapping[str, str]) -> YamlDocument:
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
        document = YamlDocument()
        if root is not None:
            document.value = _Builder(loader, document, text, environment).build(root, (), ())
        return document
    except yaml.MarkedYAMLError as mistake:
        mark = mistake.problem_mark or mistake.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        spelled = text.splitlines()[mark.line] if mark is not None and mark.line < text.count("\n") else ""
        remedy = _QUOTES_MISSING if "${" in spelled and "flow" in (mistake.context or "") else ""
        raise YamlMistake(_words(mistake) + remedy, line, column) from mistake
    except yaml.reader.ReaderError as mistake:
        line = text.count("\n", 0, mistake.position) + 1
        raise YamlMistake(f"not YAML: the character {mistake.character!r} is not allowed", line) from mistake
    except RecursionError:
        raise YamlMistake("not YAML that can be read: it is nested too deeply") from None


def _words(mistake: yaml.MarkedYAMLError) -> str:
    problem = mistake.problem or "cannot be read"
    context = f" {mistake.context}" if mistake.context else ""
    return f"not YAML:{context}{',' if context else ''} {problem}"


class _Builder:
    def __init__(
        self, loader: yaml.SafeLoader, document: YamlDocument, text: str, environment: Mapping[str, str]
    ) -> None:
        self._loader = loader
        self._document = document
        self._text = text
        self._environment = environment
        self._built = 0

    def build(self, node: yaml.Node, path: KeyPath, around: tuple[int, ...]) -> Any:
        self._built += 1
        if id(node) in around or len(around) > DEPTH_MAX or self._built > VALUES_MAX:
            raise self._mistake("an alias or a nesting without end", node, path)
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        around = (*around, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, around)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, index), around) for index, child in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)  # YAML has no fourth kind
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath, around: tuple[int, ...]) -> dict[Any, Any]:
        first_line: dict[str, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            if key_node.value in first_line:
                message = f"is given twice, first in line {first_line[key_node.value]}; remove one"
                raise self._mistake(message, key_node, (*path, key_node.value))
            first_line[key_node.value] = key_node.start_mark.line + 1
        self._loader.flatten_mapping(node)
        built: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._mistake("a key is one word, not a list or a mapping", key_node, path)
            # A topic's partition is a number in YAML and a key of a mapping here: keys are the words that were written.
            key = key_node.value
            self._document.lines[*path, key] = key_node.start_mark.line + 1
            built[key] = self.build(value_node, (*path, key), around)
        return built

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        try:
            value = self._loader.construct_object(node)
        except (ValueError, OverflowError) as mistake:
            raise self._mistake(f"cannot be read: {mistake}", node, path) from mistake
        if not isinstance(value, str):
            return value
        replaced = self._with_variables(value, node, path)
        position = self._position(node)
        if position is not None and replaced == value:
            self._document.texts[path] = position
        return replaced

    def _position(self, node: yaml.ScalarNode) -> TextPosition | None:
        mark = node.start_mark
        if node.style == "|":
            first = next((line for line in node.value.split("\n")), "")
            line = self._text.split("\n")[mark.line + 1]
            column = line.find(first) if first.strip() else -1
            return TextPosition(mark.line + 2, column + 1) if column >= 0 else None
        quote = 1 if node.style in ("'", '"') else 0
        begin = mark.index + quote
        if "\n" in node.value or self._text[begin : begin + len(node.value)] != node.value:
            return None
        return TextPosition(mark.line + 1, mark.column + quote + 1)

    def _with_variables(self, text: str, node: yaml.ScalarNode, path: KeyPath) -> str:
        if "${" not in text:
            return text

        def replaced(match: re.Match[str]) -> str:
            name, otherwise = match.groups()
            if name is None:
                return "$"
            value = self._environment.get(name, otherwise)
            if value is None:
                raise self._mistake(f"the environment variable {name} is not set", node, path)
            self._document.secrets[value] = f"${{{name}}}"
            return value

        self._document.spelled[path] = text
        return _VARIABLE.sub(replaced, text)

    @staticmethod
    def _mistake(message: str, node: yaml.Node, path: KeyPath) -> YamlMistake:
        return YamlMistake(message, node.start_mark.line + 1, path=path)
