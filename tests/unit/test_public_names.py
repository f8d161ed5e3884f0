"""Documents and examples import public names only; `penstock.spark` has what they need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock.connect
import penstock.spark
from penstock.core.ids import TopicPartition
from penstock.pipeline.progress import lag_of_query

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = ("penstock", "penstock.connect", "penstock.spark", "penstock.testing", "penstock.testing.connectors")
IMPORT = re.compile(r"^\s*(?:from|import)\s+(penstock[\w.]*)", re.MULTILINE)
MENTION = re.compile(r"`(penstock\.pipeline\.[\w.]+)")


def test_documents_import_public_names_only() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.py"))]
    assert len(pages) > 8
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for module in IMPORT.findall(text):
            assert module in PUBLIC, f"{page.name}: {module} is private"
        assert MENTION.findall(text) == [], page.name


def test_every_public_name_is_there_when_it_is_used() -> None:
    pytest.importorskip("pyspark")
    for name in penstock.spark.__all__:
        assert callable(getattr(penstock.spark, name))
        assert name in dir(penstock.spark)
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        _ = penstock.spark.sesion


def test_every_name_for_authors_of_connectors_is_there() -> None:
    for name in penstock.connect.__all__:
        assert getattr(penstock.connect, name) is not None
        assert name in dir(penstock.connect)
    with pytest.raises(AttributeError, match="no attribute 'SinkConector'"):
        _ = penstock.connect.SinkConector


def test_importing_it_imports_no_spark() -> None:
    program = "import sys, penstock.spark; print(*[name for name in sys.modules if name.startswith('pyspark')])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == []


class Reported:
    json = (
        '{"batchId": 3, "timestamp": "t", "numInputRows": 1, "sources": ['
        '{"endOffset": {"orders": {"0": 5}}, "latestOffset": {"orders": {"0": 9}}}]}'
    )


class Query:
    def __init__(self, progress: Reported | None) -> None:
        self.lastProgress = progress


def test_the_lag_of_a_query_is_that_of_its_last_batch() -> None:
    assert lag_of_query(Query(None)) == {}  # type: ignore[arg-type]
    assert lag_of_query(Query(Reported())) == {TopicPartition("orders", 0): 4}  # type: ignore[arg-type]
