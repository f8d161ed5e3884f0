"""`import penstock` is instant; its names are there when they are used."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import penstock
from penstock.core import errors

ROOT = Path(__file__).parents[2]


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


def test_the_version_is_that_of_the_distribution() -> None:
    assert penstock.__version__ == version("penstock")


def test_errors_that_the_documents_name_are_public() -> None:
    """Everything in `code` that is the name of one of our errors; a program that catches it must find it."""
    documents = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    words = {word for file in documents for word in re.findall(r"`(?:penstock\.)?([A-Z]\w+)`", file.read_text())}
    own = {name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, Exception)}
    assert {"NoOffset", "TransactionAborted", "ProducerFenced", "HandlerError"} <= words
    assert not (words & own) - set(penstock.__all__)
