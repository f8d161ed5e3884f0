"""Pipelines as programs, as far as they go without Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock import Console, Files, InvalidPipeline, Pipeline, PythonSink, Table, Topic
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.api import hosting


def test_a_mistake_in_the_head_is_told_at_once_with_the_line_of_the_program() -> None:
    with pytest.raises(InvalidPipeline) as raised:
        Pipeline("x", guarantee="exactly_one")  # type: ignore[arg-type]
    [problem] = raised.value.problems
    assert problem.file == __file__
    assert problem.line == 17
    assert (problem.key, "did you mean 'exactly_once'?" in problem.message) == ("guarantee", True)


def test_an_unknown_keyword_is_told_with_the_nearest() -> None:
    with pytest.raises(InvalidPipeline, match=r"checkpont: unknown key \(did you mean 'checkpoint'\?\)"):
        Pipeline("x", checkpont="c")  # type: ignore[call-arg]


def test_a_source_is_checked_before_spark_starts() -> None:
    with pytest.raises(InvalidPipeline, match=r"format: 'jsn' is not one of json, csv, text, binary"):
        Pipeline("x").read(Topic("orders", format="jsn"))  # type: ignore[arg-type]
    with pytest.raises(InvalidPipeline, match=r"url: is missing|expected \{topic"):
        Pipeline("x").read(Console())


def test_a_pipeline_writes_something_before_it_runs() -> None:
    with pytest.raises(InvalidPipeline, match="nothing is written: call write before run"):
        Pipeline("x").run()


def test_keywords_are_the_keys_of_a_file() -> None:
    assert Topic("orders", format="json", schema="x INT").keys == {
        "topic": "orders",
        "format": "json",
        "schema": "x INT",
    }
    assert Topic(pattern="o.*").keys == {"topic_pattern": "o.*"}
    assert Files("out/", partition_by="day").keys == {"files": "out/", "partition_by": "day"}
    assert Console(rows=5).keys == {"console": True, "rows": 5}
    assert PythonSink("m:f", idempotent=True).keys == {"python": "m:f", "idempotent": True}


def test_a_function_is_known_by_where_it_is_found() -> None:
    sink = PythonSink(store_rows)
    assert sink.keys["python"] == f"{__name__}:store_rows"
    assert sink.function is store_rows


def store_rows(rows: object, batch_id: int) -> None: ...


def test_a_repr_shows_no_password() -> None:
    shown = repr(Table("postgresql://u:hunter2@h/d", "t")) + repr(
        Topic("a", options={"kafka.sasl.password": "hunter2"})
    )
    assert "hunter2" not in shown


def test_importing_penstock_brings_neither_pydantic_nor_spark() -> None:
    program = "import sys, penstock; print([m for m in ('pydantic', 'pyspark', 'yaml') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


def test_the_model_is_checked_without_spark() -> None:
    module = "penstock.pipeline.declaration.spec_file"
    program = f"import sys, {module}; print([m for m in ('pyspark', 'py4j') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


def test_a_missing_extra_is_one_line() -> None:
    program = (
        "import sys; sys.modules['yaml'] = None\n"
        "from penstock.cli.main import main; sys.exit(main(['validate', 'x.yaml']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == ExitCode.MISSING_REQUIREMENT
    assert done.stderr == "penstock: pipelines need Spark: pip install 'penstock[spark]'\n"


def test_a_missing_extra_is_named_by_the_import() -> None:
    program = "import sys; sys.modules['pydantic'] = None; from penstock import Pipeline"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ImportError: penstock.Pipeline needs pydantic: pip install 'penstock[spark]'" in done.stderr


class _Rows:
    """As much of a DataFrame as `read` and `write` look at."""

    def createOrReplaceTempView(self, name: str) -> None: ...  # noqa: N802 (Spark's name)


class _Run:
    spark = None

    def read(self, name: str, source: object) -> _Rows:
        return _Rows()

    def execute(self, plan: object) -> None: ...


def test_several_sinks_have_a_name_each() -> None:
    with hosting(lambda _pipeline: _Run()):  # type: ignore[arg-type, return-value]
        p = Pipeline("x")
        rows = p.read(Topic("orders"))
        p.write(rows, Topic("a"), name="a")
        with pytest.raises(InvalidPipeline, match="sinks: a pipeline with several sinks has a name for each"):
            p.write(rows, Topic("b"))
        with pytest.raises(InvalidPipeline, match=r"sinks\.a: a sink of this name is written already"):
            p.write(rows, Topic("b"), name="a")
        p.write(rows, Topic("b"), name="b")
        plan = p.plan()
    assert [branch.progress_name for branch in plan.spec.branches] == ["x/a", "x/b"]
    assert list(plan.results) == ["a", "b"]
