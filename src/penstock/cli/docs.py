"""`penstock docs [PAGE]`: the documentation that belongs to the installed version, offline.

Owns where the pages are. The wheel brings them as `penstock/documents/`; a checkout has them in `docs/`.
"""

from __future__ import annotations

import json
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.options import AsJson, examples
from penstock.core.exit_codes import ExitCode

EPILOG: Final = examples(
    "penstock docs                                list the pages",
    "penstock docs tutorial                       read one",
    "penstock docs pipelines | less",
    "penstock docs --json                         names, titles and files",
)
_PACKAGE: Final = Path(__file__).resolve().parents[1]
# First those that a new user reads, then the rest by name.
_ORDER: Final = ("overview", "tutorial", "semantics", "recipes", "pipelines", "cli", "clients")


def docs(
    page: Annotated[str | None, typer.Argument(metavar="PAGE", show_default=False, help="A page of the list.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the documentation, or show a page of it."""
    pages = _pages()
    if page is None:
        _list(pages, as_json)
        return
    file = pages.get(page.lower().removesuffix(".md"))
    if file is None:
        resembled = get_close_matches(page.lower(), pages, n=1)
        hint = f"did you mean '{resembled[0]}'?" if resembled else "`penstock docs` lists the pages"
        raise usage_error(f"no page '{page}'; {hint}")
    text = file.read_text(encoding="utf-8")
    if as_json:
        print(json.dumps({"page": page, "file": str(file), "text": text}))
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console()
        with console.pager(styles=True):
            console.print(Markdown(text))
    else:
        print(text, end="")


def _pages() -> dict[str, Path]:
    """The pages by name."""
    installed, checkout = _PACKAGE / "documents", _PACKAGE.parents[1]
    if installed.is_dir():
        directory, overview = installed, installed / "overview.md"
    else:
        directory, overview = checkout / "docs", checkout / "README.md"
    found = {file.stem: file for file in sorted(directory.glob("*.md")) if file.stem != "README"}
    if not found or not overview.is_file():
        raise CommandError("the documentation is not installed; install penstock from a wheel", ExitCode.FAILURE)
    found["overview"] = overview
    first = {name: found[name] for name in _ORDER if name in found}
    return first | found


def _list(pages: dict[str, Path], as_json: bool) -> None:
    titles = {name: _title(file) for name, file in pages.items()}
    if as_json:
        listed = [{"page": name, "title": titles[name], "file": str(file)} for name, file in pages.items()]
        print(json.dumps({"pages": listed}))
        return
    width = max(map(len, pages))
    for name, title in titles.items():
        print(f"{name:<{width}}  {title}")


def _title(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return next((line.lstrip("# ").strip() for line in lines if line.startswith("# ")), file.stem)
