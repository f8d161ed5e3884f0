"""Compiled kernels are kept in the user's cache directory, and not beside the modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipeline.kernel_cache import user_kernel_cache

LOAD = """
import sys
from penstock.pipeline.kernel_cache import use_kernel_cache
use_kernel_cache()
import penstock.columns.kernel_compilation as compilation
print(compilation.compiled(compilation.INT(compilation.INT))(lambda number: number + 1)(1))
import numba
print(repr(numba.config.CACHE_DIR))
"""


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_CACHE_HOME": "/caches", "HOME": "/home/me"}, "/caches/penstock/numba"),
        ({"HOME": "/home/me"}, "/home/me/.cache/penstock/numba"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/penstock/numba"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache/penstock/numba"),
    ],
)
def test_the_directory_follows_the_users(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert user_kernel_cache() == expected


def test_a_user_without_a_home_directory_leaves_it_to_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    assert user_kernel_cache() == ""


def test_a_kernel_is_compiled_into_it(tmp_path: Path) -> None:
    program = tmp_path / "load.py"
    program.write_text(LOAD)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    finished = subprocess.run(
        [sys.executable, str(program)],
        env={**environment, "XDG_CACHE_HOME": str(tmp_path / "caches")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.splitlines() == ["2", "''"], "the process's own setting is left alone"
    assert list((tmp_path / "caches" / "penstock" / "numba").rglob("*.nbi"))
    assert not list(tmp_path.glob("__pycache__/*.nbi"))
