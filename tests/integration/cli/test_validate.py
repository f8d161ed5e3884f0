"""`penstock validate` as a process: what it prints where, and its exit codes. SQL is in tests/pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from tests.integration.cli.conftest import Command

GOOD = "name: x\nsource: {topic: a, schema: x INT}\nsink: {topic: b}\n"


def test_a_good_pipeline_is_told_how_its_guarantee_is_kept(embedded: Command, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD + "guarantee: exactly_once\n")
    done = embedded("validate", "--no-sql", str(tmp_path / "p.yaml"))
    assert (done.returncode, done.stderr) == (ExitCode.OK, b"")
    assert b"x is valid; exactly_once: one Kafka transaction" in done.stdout


def test_every_mistake_is_a_line_on_stderr(embedded: Command, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("name: x\nsource: {topic: a, format: jsn}\nsink: {topc: b}\n")
    done = embedded("validate", str(file))
    assert (done.returncode, done.stdout) == (ExitCode.INVALID_PIPELINE, b"")
    assert done.stderr.decode().splitlines() == [
        f"{file}:2: source.format: 'jsn' is not one of json, csv, text, binary (did you mean 'json'?)",
        f"{file}:3: sink.topc: unknown key (did you mean 'topic'?)",
    ]


def test_a_program_is_given_json(embedded: Command, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD + "nmae: y\n")
    done = embedded("validate", "--no-sql", "--json", str(tmp_path / "p.yaml"))
    assert done.returncode == ExitCode.INVALID_PIPELINE
    verdict = json.loads(done.stdout)
    assert (verdict["valid"], verdict["exit_code"]) == (False, 20)
    assert [(problem["line"], problem["key"]) for problem in verdict["problems"]] == [(4, "nmae")]


def test_the_schema_of_editors_is_printed(embedded: Command) -> None:
    done = embedded("validate", "--schema")
    assert done.returncode == ExitCode.OK
    assert json.loads(done.stdout)["title"] == "Penstock pipeline"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), ExitCode.USAGE, b"expected a FILE"),
        (("nowhere.yaml",), ExitCode.INVALID_PIPELINE, b"nowhere.yaml: cannot be read: No such file or directory\n"),
        (("nowhere.py",), ExitCode.INVALID_PIPELINE, b"nowhere.py: cannot be read: no such file"),
        (("--no-sql", "p.py"), ExitCode.USAGE, b"--no-sql is for YAML"),
    ],
)
def test_what_cannot_be_checked_is_one_line(
    embedded: Command, words: tuple[str, ...], code: ExitCode, message: bytes
) -> None:
    done = embedded("validate", *words)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_program_with_a_mistake_in_its_head_needs_no_spark(embedded: Command, tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text("from penstock import Pipeline\n\nPipeline('x', guarante='exactly_once')\n")
    done = embedded("validate", str(file))
    assert done.returncode == ExitCode.INVALID_PIPELINE
    assert done.stderr.decode() == f"{file}:3: guarante: unknown key (did you mean 'guarantee'?)\n"


def test_a_program_that_fails_is_told_in_its_own_line(embedded: Command, tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text("value = 1\nprint(value / 0)\n")
    done = embedded("validate", str(file))
    assert done.returncode == ExitCode.INVALID_PIPELINE
    assert done.stderr.decode() == f"{file}:2: ZeroDivisionError: division by zero\n"
