"""What tools share that derive a page: they write it, or with --check, their exit code says if it is up to date."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(
    arguments: Sequence[str], path: Path, derive: Callable[[str], str], remedy: str, description: str | None
) -> int:
    """`derive` gets the present text of the page, and `remedy` is told where the page is not what it returns."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    options = parser.parse_args(arguments)
    present = path.read_text(encoding="utf-8") if path.exists() else ""
    derived = derive(present)
    if options.check:
        if derived != present:
            print(f"{path.relative_to(ROOT)} is not up to date: {remedy}")
        return int(derived != present)
    path.write_text(derived, encoding="utf-8")
    return 0
