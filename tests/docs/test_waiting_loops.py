"""Loops of the documentation that wait for a program end with that program: a taken port must not hang a reader."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOOPS = sorted(
    {
        (file.name, line.strip())
        for file in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md")
        for line in file.read_text().splitlines()
        if line.startswith("until ") and line.endswith("; done")
    }
)


@pytest.mark.parametrize(("page", "loop"), LOOPS, ids=[f"{page}-{number}" for number, (page, _) in enumerate(LOOPS)])
def test_a_loop_ends_with_the_program_that_it_waits_for(page: str, loop: str, tmp_path: Path) -> None:
    script = f"touch broker.out events.jsonl\nfalse &\npipeline=$!\nwait $!\n{loop}\necho went on\n"
    finished = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True
    )
    assert finished.stdout == "went on\n"


def test_there_are_loops_to_look_at() -> None:
    assert len(LOOPS) >= 4
