"""`make demo`, small: it ends well, leaves nothing behind, and does not say so when it is not so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WAIT_S = 240

pytestmark = [pytest.mark.kills, pytest.mark.timeout(WAIT_S + 30)]


@pytest.fixture
def empty_directory() -> Iterator[Path]:
    """Not pytest's: sockets are made in it, and their paths must be short."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def run_demo(examples: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, examples / "demo.py", "--records", "40000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary), "COLUMNS": "200"},
        timeout=WAIT_S,
    )


def test_the_demo_loses_and_repeats_nothing(empty_directory: Path) -> None:
    ended = run_demo(EXAMPLES, empty_directory)
    assert ended.returncode == 0, ended.stdout
    assert "kill -9" in ended.stdout
    assert "lost 0, duplicated 0" in ended.stdout
    assert list(empty_directory.iterdir()) == []


def test_the_demo_fails_when_its_pipeline_counts_repeats(tmp_path: Path, empty_directory: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    pipeline = tmp_path / "revenue.yaml"
    careful = pipeline.read_text()
    assert "  dedupe: [id]\n" in careful
    pipeline.write_text(careful.replace("  dedupe: [id]\n", ""))
    ended = run_demo(tmp_path, empty_directory)
    assert ended.returncode == 1, ended.stdout
    assert "the demo failed: lost 0, duplicated " in ended.stdout
    assert list(empty_directory.iterdir()) == []
