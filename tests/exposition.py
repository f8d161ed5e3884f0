"""A strict reader of Prometheus' text format, version 0.0.4: what promtool would refuse fails the test."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE: Final = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_UNESCAPED: Final = {r"\\": "\\", r"\n": "\n", r"\"": '"'}
_NUMBER: Final = re.compile(r"[+-]?(Inf|NaN|[0-9.]+(e[+-]?[0-9]+)?)")
_SUFFIXES: Final = {"histogram": ("_bucket", "_sum", "_count")}

Labels = frozenset[tuple[str, str]]


@dataclass
class FamilyText:
    name: str
    help: str
    type: str
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)


class Exposition:
    """The families of one scrape. Raises AssertionError for text that is not well formed."""

    def __init__(self, text: str) -> None:
        assert text.endswith("\n"), "the last line is not complete"
        self.families: dict[str, FamilyText] = {}
        current: FamilyText | None = None
        help_line: tuple[str, str] | None = None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name, _, text_of = line.removeprefix("# HELP ").partition(" ")
                assert name not in self.families, f"{name} comes twice"
                assert text_of, f"{name} has no help"
                help_line = (name, text_of)
            elif line.startswith("# TYPE "):
                name, _, kind = line.removeprefix("# TYPE ").partition(" ")
                assert help_line is not None, f"{name} has no HELP"
                assert help_line[0] == name, f"{name}: HELP comes right before TYPE"
                assert kind in ("counter", "gauge", "histogram"), line
                assert re.fullmatch(_NAME, name), name
                assert (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"
                current = self.families[name] = FamilyText(name, help_line[1], kind)
            else:
                assert current is not None, f"a sample without a family: {line}"
                self._add(current, line)
        for family in self.families.values():
            _check(family)

    @staticmethod
    def _add(family: FamilyText, line: str) -> None:
        parsed = _SAMPLE.fullmatch(line)
        assert parsed is not None, f"not a sample: {line!r}"
        name, labels_text, value = parsed.groups()
        allowed = {family.name + suffix for suffix in _SUFFIXES.get(family.type, ("",))}
        assert name in allowed, f"{name} is not of {family.name}"
        assert _NUMBER.fullmatch(value), f"not a number: {line!r}"
        key = (name, _labels(labels_text or "", line))
        assert key not in family.samples, f"twice: {line!r}"
        family.samples[key] = float(value)

    def value(self, name: str, **labels: str) -> float:
        """The one sample of the name with these labels. KeyError: there is none."""
        for family in self.families.values():
            if (name, frozenset(labels.items())) in family.samples:
                return family.samples[name, frozenset(labels.items())]
        raise KeyError(f"{name} {labels}")

    def values(self, name: str) -> Mapping[Labels, float]:
        return {
            labels: value
            for family in self.families.values()
            for (sample, labels), value in family.samples.items()
            if sample == name
        }


def _labels(text: str, line: str) -> Labels:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _LABEL.match(text, position)
        assert found is not None, f"labels: {line!r}"
        assert found[1] not in labels, f"a label twice: {line!r}"
        labels[found[1]] = re.sub(r'\\["\\n]', lambda escape: _UNESCAPED[escape[0]], found[2])
        position = found.end()
    return frozenset(labels.items())


def _check(family: FamilyText) -> None:
    if family.type == "counter":
        assert all(value >= 0 for value in family.samples.values()), f"{family.name} is negative"
    if family.type != "histogram":
        names = {frozenset(name for name, _ in labels) for _, labels in family.samples}
        assert len(names) <= 1, f"{family.name} has several sets of labels"
        return
    buckets: dict[Labels, list[tuple[float, float]]] = {}
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            (bound,) = (text for label, text in labels if label == "le")
            rest = frozenset(each for each in labels if each[0] != "le")
            buckets.setdefault(rest, []).append((float(bound), value))
    for labels, found in buckets.items():
        assert found == sorted(found), f"{family.name}: buckets in order, and cumulative"
        counts = [count for _, count in found]
        assert counts == sorted(counts), f"{family.name}: buckets are cumulative"
        assert math.isinf(found[-1][0]), f"{family.name}: the last bucket is +Inf"
        assert found[-1][1] == family.samples[family.name + "_count", labels]
        assert (family.name + "_sum", labels) in family.samples
