"""The tables of docs/metrics.md, which tests compare with what processes really serve."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from tests.exposition import Exposition

DOCS: Final = Path(__file__).parents[1] / "docs"
_ROW: Final = re.compile(r"\| `([a-z_]+)` \| (counter|gauge|histogram) \| (.*?) \| (.+) \|")


class Documented(NamedTuple):
    type: str
    labels: frozenset[str]
    help: str


def documented(section: str) -> dict[str, Documented]:
    """The metrics of a section (`## Broker`), by name."""
    text = (DOCS / "metrics.md").read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = [found.groups() for found in map(_ROW.fullmatch, text.splitlines()) if found is not None]
    assert len(rows) == len({row[0] for row in rows}), "a metric is documented twice"
    return {
        name: Documented(kind, frozenset(re.findall("`([a-z]+)`", labels)), help_text)
        for name, kind, labels, help_text in rows
    }


def check_page(section: str, served: Exposition) -> None:
    """Every metric is in the table of the section, and nothing else is."""
    page = documented(section)
    assert set(served.families) == set(page)
    for name, family in served.families.items():
        assert (family.type, family.help) == (page[name].type, page[name].help), name
        for _, labels in family.samples:
            assert {label for label, _ in labels} - {"le"} == page[name].labels, name
