"""The connectors of docs/connectors.md: tested as their author tests them, and found as a worker finds them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from parts_sink import PartsSink
from spool_source import SpoolSource
from test_connectors import TestPartsSink, TestSpoolSource

from penstock.connect.plugins import ENTRY_POINT_GROUP, Plugins, builtin_tables
from tests.docs.page_runner import FILE_NAME, ROOT, blocks

__all__ = ["TestPartsSink", "TestSpoolSource"]

EXAMPLES = ROOT / "examples" / "connectors"


def test_the_guide_shows_the_files() -> None:
    shown = {}
    for block in blocks(ROOT / "docs" / "connectors.md"):
        if block.language == "python" and (name := FILE_NAME.match(block.code)):
            shown[name[1]] = block.code
    assert shown == {file.name: file.read_text() for file in EXAMPLES.glob("*.py")}


def test_the_guide_shows_the_package() -> None:
    page = (ROOT / "docs" / "connectors.md").read_text()
    assert (EXAMPLES / "pyproject.toml").read_text() in page


@pytest.mark.parametrize("file", ["parts_sink.py", "spool_source.py"])
def test_the_examples_are_short(file: str) -> None:
    lines = [line for line in (EXAMPLES / file).read_text().splitlines() if line.strip()]
    assert len(lines) < 60


def test_a_worker_finds_them_by_their_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "example_connectors-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: example-connectors\nVersion: 1.0\n")
    points = project["entry-points"][ENTRY_POINT_GROUP]
    lines = [f"{name} = {target}" for name, target in points.items()]
    (installed / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINT_GROUP}]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = Plugins(builtin_tables())
    assert plugins.load("Connector", "com.example.SpoolSource").implementation is SpoolSource
    assert plugins.load("Connector", "PartsSink").implementation is PartsSink
