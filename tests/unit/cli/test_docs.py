"""`penstock docs`: the pages that belong to this version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.core.exit_codes import ExitCode

ROOT = Path(__file__).resolve().parents[3]
Captured = pytest.CaptureFixture[str]


def test_every_page_is_listed_with_its_title(capsys: Captured) -> None:
    assert main(["docs"]) == ExitCode.OK
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert list(listed)[:2] == ["overview", "tutorial"]
    assert set(listed) == {"overview", *(page.stem for page in (ROOT / "docs").glob("*.md") if page.stem != "README")}
    assert listed["pipelines"] == "Pipelines"


def test_a_page_is_printed_as_it_is(capsys: Captured) -> None:
    assert main(["docs", "tutorial"]) == ExitCode.OK
    assert capsys.readouterr().out == (ROOT / "docs" / "tutorial.md").read_text()
    assert main(["docs", "pipelines.md"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("# Pipelines\n")


def test_a_misspelled_page_is_a_usage_error_with_the_nearest(capsys: Captured) -> None:
    assert main(["docs", "tutorail"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "penstock: no page 'tutorail'; did you mean 'tutorial'?\n"


def test_programs_get_names_titles_and_files(capsys: Captured) -> None:
    assert main(["docs", "--json"]) == ExitCode.OK
    pages = json.loads(capsys.readouterr().out)["pages"]
    assert all(Path(page["file"]).is_file() and page["title"] for page in pages)
