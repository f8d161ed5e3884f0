"""The client matrix: which client can do what, as this test run saw it.

Owns the cells and their file. A cell is "ok", "failed", "client has none" (with the reason in the notes) or "not run"
(the client is not installed here). The file is written only after a run that collected every cell: a run of some tests
says nothing of the others, and must not pass for the whole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

OK: Final = "ok"
FAILED: Final = "failed"
HAS_NONE: Final = "client has none"
NOT_RUN: Final = "not run"


@dataclass(slots=True)
class ClientMatrix:
    """Collects cells: first all that there are, in the order of the tests' files, then what became of each."""

    cells: dict[tuple[str, str], str | None] = field(default_factory=dict)
    notes: dict[tuple[str, str], str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def expect(self, client: str, feature: str) -> None:
        """A test for this cell was collected."""
        self.cells.setdefault((client, feature), None)

    def has_none(self, client: str, feature: str, reason: str) -> None:
        self.cells[client, feature] = HAS_NONE
        self.notes[client, feature] = reason

    def report(self, client: str, feature: str, outcome: str) -> None:
        """Several reports may come for one cell (set-up, call, tear-down); a failure is never taken back."""
        if self.cells.get((client, feature)) != FAILED:
            self.cells[client, feature] = outcome

    def is_complete(self) -> bool:
        return bool(self.cells) and None not in self.cells.values()

    def write(self, path: Path, broker: str) -> None:
        """The file from which the table in COMPATIBILITY.md is made."""
        clients = {
            client: {
                "version": self.versions.get(client),
                "features": {feature: outcome for (name, feature), outcome in self.cells.items() if name == client},
                "notes": {feature: note for (name, feature), note in self.notes.items() if name == client},
            }
            for client in dict.fromkeys(client for client, _ in self.cells)
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"broker": broker, "clients": clients}, indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
