"""`import penstock` is instant; its names are there when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock


def test_every_name_is_there() -> None:
    for name in penstock.__all__:
        assert getattr(penstock, name).__name__ == name
        assert name in dir(penstock)


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Consummer'"):
        _ = penstock.Consummer


def test_importing_it_imports_nothing_else() -> None:
    program = (
        "import sys, penstock; print(*[name for name in sys.modules if name.startswith(('confluent', 'penstock.'))])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == []
