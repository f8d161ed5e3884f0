from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from penstock.pipeline.topics.batch_reader import TopicBatchReader
from penstock.pipeline.topics.errors import InvalidOption
from penstock.pipeline.topics.stream_reader import TopicStreamReader
from pyspark_penstock import DefaultSource


def source(**options: str) -> DefaultSource:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "orders"} | options
    return DefaultSource(CaseInsensitiveDict(given))


def test_readers_of_both_kinds() -> None:
    made = source(columns="value,offset")
    assert made.name() == "penstock"
    assert isinstance(made.reader(made.schema()), TopicBatchReader)
    assert isinstance(made.streamReader(made.schema()), TopicStreamReader)
    assert made.schema().fieldNames() == ["value", "offset"]


def test_it_is_pickled_and_keeps_its_options() -> None:
    restored = pickle.loads(pickle.dumps(source(endingOffsets="latest")))
    with pytest.raises(InvalidOption, match="not valid in streaming queries"):
        restored.streamReader(restored.schema())


def test_finding_it_loads_nothing_that_is_not_sparks() -> None:
    """Spark imports the module in every session that uses a Python data source, whichever that is."""
    program = "import sys, pyspark_penstock; print({'penstock', 'numba', 'confluent_kafka'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"


def test_without_the_extra_there_is_a_line_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without_numba(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "numba" else find_spec(name, package)

    monkeypatch.setattr("pyspark_penstock.find_spec", without_numba)
    with pytest.raises(ImportError, match=r"needs numba: pip install 'penstock\[spark\]'"):
        source().reader(source().schema())
