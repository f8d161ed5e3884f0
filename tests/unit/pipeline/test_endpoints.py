"""Sources and sinks of programs: their keywords are written out, for editors and type checkers."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest

from penstock import Console, Files, InvalidPipeline, Pipeline, PythonSink, Table, Topic
from penstock.pipeline.declaration.spec import PipelineHead
from penstock.pipeline.endpoints import Endpoint
from penstock.pipeline.sinks.console.declaration import ConsoleSink
from penstock.pipeline.sinks.files.declaration import FileSink
from penstock.pipeline.sinks.function.declaration import FunctionSink
from penstock.pipeline.sinks.kinds import SINKS
from penstock.pipeline.sinks.table.declaration import TableSink
from penstock.pipeline.sinks.topic.declaration import TopicSink
from penstock.pipeline.sources.files.declaration import FileSource
from penstock.pipeline.sources.kinds import SOURCES
from penstock.pipeline.sources.table.declaration import TableSource
from penstock.pipeline.sources.topic.declaration import TopicSource

MODELS: Final = {
    Topic: (TopicSource, TopicSink),
    Table: (TableSource, TableSink),
    Files: (FileSource, FileSink),
    Console: (ConsoleSink,),
    PythonSink: (FunctionSink,),
}
# A DataFrame is passed instead of its name; and what Python calls otherwise.
SPELLED_OTHERWISE: Final = {
    "from": None,
    "output_mode": None,
    "topic_pattern": "pattern",
    "python": "function",
    "console": None,
}


def keywords(call: object) -> set[str]:
    return {name for name in inspect.signature(call).parameters if name != "self"}  # type: ignore[arg-type]


def keys(*models: type[PipelineHead] | type[object]) -> set[str]:
    return {field.alias or name for model in models for name, field in model.model_fields.items()}  # type: ignore[union-attr]


@pytest.mark.parametrize("endpoint", MODELS, ids=lambda endpoint: endpoint.__name__)
def test_the_keywords_of_an_endpoint_are_the_keys_of_its_models(endpoint: type[Endpoint]) -> None:
    expected = {SPELLED_OTHERWISE.get(key, key) for key in keys(*MODELS[endpoint])} - {None}
    assert keywords(endpoint) == expected


def test_every_kind_has_an_endpoint() -> None:
    assert {kind for models in MODELS.values() for kind in models} == {*SOURCES, *SINKS}


def test_the_keywords_of_a_pipeline_are_the_keys_of_its_head() -> None:
    assert keywords(Pipeline) == keys(PipelineHead)


def test_an_unknown_keyword_of_an_endpoint_is_told_with_its_line_and_the_nearest() -> None:
    with pytest.raises(InvalidPipeline, match=r"watermrk: unknown key \(did you mean 'watermark'\?\)") as raised:
        Topic("orders", watermrk="1 minute")  # type: ignore[call-arg]
    assert raised.value.problems[0].file == __file__


def test_paths_may_be_objects() -> None:
    assert Files(Path("out")).keys == {"files": "out"}
    assert Pipeline("x", checkpoint=Path("c")).head.checkpoint == "c"


PROGRAM: Final = """\
    from penstock import Files, Pipeline, Table, Topic

    p = Pipeline("revenue", guarantee="exactly_once", on_error={"dead_letters": "dlq"}, trigger={"interval": "1 hour"})
    orders = p.read(Topic("orders", format="json", schema="id BIGINT", starting_offsets="latest"))
    p.write(orders, Table("sqlite:///revenue.db", "revenue", key=["id"]), name="table")
    p.write(orders, Files("out", partition_by="id"), name="files")
    p.run(once=True)
"""
TYPOS: Final = {
    'Pipeline("x", gurantee="exactly_once")': 'Unexpected keyword argument "gurantee" for "Pipeline"',
    'Pipeline("x", guarantee="exactly_one")': 'Argument "guarantee" to "Pipeline" has incompatible type',
    'Pipeline("x", trigger="5 seconds")': 'Argument "trigger" to "Pipeline" has incompatible type',
    'Topic("orders", formt="json")': 'Unexpected keyword argument "formt" for "Topic"',
    'Table("sqlite:///x.db", "x", kee="id")': 'Unexpected keyword argument "kee" for "Table"',
    'Files("out", partitionby="id")': 'Unexpected keyword argument "partitionby" for "Files"',
    'p.run(onec=True)': 'Unexpected keyword argument "onec" for "run" of "Pipeline"',
}  # fmt: skip


@pytest.mark.slow  # mypy reads the whole package
def test_mypy_accepts_a_program_and_finds_each_typo(tmp_path: Path) -> None:
    program = textwrap.dedent(PROGRAM) + "\n".join(TYPOS) + "\n"
    (tmp_path / "program.py").write_text(program)
    others = ("pyspark", "pydantic", "pydantic_core", "numpy", "pyarrow", "numba", "confluent_kafka", "sqlalchemy")
    sections = "".join(f"[mypy-{name}.*]\nfollow_imports = skip\nignore_missing_imports = true\n" for name in others)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n{sections}")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "program.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    first_typo = program[: program.index(next(iter(TYPOS)))].count("\n") + 1
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert len(errors) == len(TYPOS), checked.stdout + checked.stderr
    for number, (error, expected) in enumerate(zip(errors, TYPOS.values(), strict=True)):
        assert error.startswith(f"program.py:{first_typo + number}: error: {expected}"), error
