"""Derives the tables of COMPATIBILITY.md: the APIs from the router, the clients from the last run of the client matrix.

Run without arguments to write them; with --check to be told, by the exit code, whether they are what would be written.
The client table is checked only where a test run has left its result: a fresh clone has none yet.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from derived_page import write_or_check

from penstock.broker.router import BY_API_KEY, ROUTES
from penstock.protocol.definitions.index import APIS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "COMPATIBILITY.md"
MATRIX = ROOT / "build" / "client_matrix.json"
SIGNS = {"ok": "✓", "client has none": "–", "failed": "FAILED", "not run": "not run"}


def api_table() -> str:
    lines = [
        "| API | key | versions here | versions in Kafka 4.3 | access as in Kafka | notes |",
        "|---|---|---|---|---|---|",
    ]
    for route in ROUTES:
        api = APIS[route.api_key]
        lines.append(
            f"| {route.name} | {route.api_key} | {route.min_version} to {route.max_version} "
            f"| {api.min_version} to {api.max_version} "
            f"| {'; '.join(map(str, route.access)) or 'none'} | {route.notes} |"
        )
    missing = [api.request.removesuffix("Request") for key, api in APIS.items() if key not in BY_API_KEY]
    return "\n".join([*lines, "", f"Not served yet ({len(missing)}): {', '.join(missing)}."])


def client_table(matrix: dict[str, Any]) -> str:
    clients = matrix["clients"]
    features = list(dict.fromkeys(feature for client in clients.values() for feature in client["features"]))
    header = " | ".join(f"{name} {client['version']}" for name, client in clients.items())
    lines = [f"| | {header} |", "|---" * (len(clients) + 1) + "|"]
    for feature in features:
        cells = " | ".join(SIGNS[client["features"].get(feature, "not run")] for client in clients.values())
        lines.append(f"| {feature} | {cells} |")
    notes = {
        f"{name}, {feature}: {note}" for name, client in clients.items() for feature, note in client["notes"].items()
    }
    return "\n".join([*lines, "", "Why a client has none:", "", *(f"- {note}" for note in sorted(notes))])


def with_section(page: str, name: str, content: str) -> str:
    """The page with what stands between the section's two marks replaced."""
    pattern = re.compile(rf"(<!-- derived: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    replaced, count = pattern.subn(lambda marks: f"{marks[1]}{content}\n{marks[2]}", page)
    if count != 1:
        raise SystemExit(f"{PAGE.name} has no section {name!r}")
    return replaced


def derived_from(present: str) -> str:
    derived = with_section(present, "apis", api_table())
    if MATRIX.exists():
        derived = with_section(derived, "clients", client_table(json.loads(MATRIX.read_text(encoding="utf-8"))))
    return derived


def main(arguments: Sequence[str]) -> int:
    remedy = "the router or the client matrix says something else; run make compatibility"
    return write_or_check(arguments, PAGE, derived_from, remedy, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
