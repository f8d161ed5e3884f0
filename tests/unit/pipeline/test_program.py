"""The author's program inside a command: what a mistake shows, and when Spark must be there before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.program import EarlySession, ProgramFailed, early_session, line_of, run_program


def program(directory: Path, text: str) -> Path:
    file = directory / "prog.py"
    file.write_text(text)
    return file


def failure_of(file: Path) -> ProgramFailed:
    with pytest.raises(ProgramFailed) as failed:
        run_program(file)
    return failed.value


def test_a_mistake_shows_as_python_shows_it(tmp_path: Path) -> None:
    file = program(tmp_path, "def half(n):\n    return n / 0\n\nhalf(1)\n")
    failure = failure_of(file)
    by_python = subprocess.run([sys.executable, file], capture_output=True, text=True).stderr
    assert by_python.startswith("Traceback (most recent call last):\n")
    assert str(failure) + "\n" == by_python
    assert line_of(failure.__cause__ or failure, file) == 2


def test_frames_of_libraries_are_left_out(tmp_path: Path) -> None:
    file = program(tmp_path, "import json\n\njson.loads('{')\n")
    shown = str(failure_of(file))
    assert shown.splitlines()[:3] == [
        "Traceback (most recent call last):",
        f'  File "{file}", line 3, in <module>',
        "    json.loads('{')",
    ]
    assert shown.splitlines()[-1].startswith("json.decoder.JSONDecodeError: ")
    assert shown.count("File") == 1


def test_syntax_is_shown_with_its_line(tmp_path: Path) -> None:
    file = program(tmp_path, "x = 1\ndef :\n")
    shown = str(failure_of(file))
    assert f'File "{file}", line 2' in shown
    assert "SyntaxError" in shown
    assert "runpy" not in shown
    assert "penstock/" not in shown


def test_what_led_to_a_failure_is_shown_if_it_is_the_authors(tmp_path: Path) -> None:
    file = program(
        tmp_path,
        "try:\n    int('x')\nexcept ValueError as wrong:\n    raise KeyError('amount') from wrong\n",
    )
    shown = str(failure_of(file))
    assert shown.index("ValueError: invalid literal") < shown.index("KeyError: 'amount'")


def test_a_failed_pipeline_and_an_exit_pass_as_they_are(tmp_path: Path) -> None:
    failing = program(tmp_path, "from penstock.pipeline.failure import PipelineFailed\nraise PipelineFailed('no')\n")
    with pytest.raises(PipelineFailed, match="no"):
        run_program(failing)
    with pytest.raises(SystemExit) as ended:
        run_program(program(tmp_path, "raise SystemExit(3)\n"))
    assert ended.value.code == 3


def test_modules_beside_the_program_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_program.py").write_text("raise RuntimeError('here')\n")
    shown = str(failure_of(program(tmp_path, "import beside_the_program\n")))
    assert f'File "{tmp_path / "beside_the_program.py"}", line 1, in <module>' in shown


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("from penstock import Pipeline\np = Pipeline('x')\n", None),
        ("from pyspark.sql.functions import udf\n@udf('int')\ndef f(x): return x\n", EarlySession("prog")),
        ("import pyspark.sql.functions as F\np = Pipeline('sums')\n", EarlySession("sums")),
        (
            "import pyspark\np = penstock.Pipeline(name='sums', spark={'spark.a': 1})",
            EarlySession("sums", {"spark.a": 1}),
        ),
        ("import pyspark\np = Pipeline('x', spark=settings())", None),
        ("def (\n", None),
    ],
)
def test_a_program_that_uses_pyspark_itself_gets_its_session_first(
    text: str, wanted: EarlySession | None, tmp_path: Path
) -> None:
    assert early_session(program(tmp_path, text)) == wanted


def test_the_session_is_there_before_the_first_statement(tmp_path: Path) -> None:
    asked: list[EarlySession] = []
    file = program(tmp_path, "import sys\nsys.exit(0)\nimport pyspark\n")
    with pytest.raises(SystemExit):
        run_program(file, asked.append)
    assert asked == [EarlySession("prog")]


def test_the_command_shows_the_authors_file_only(tmp_path: Path) -> None:
    file = program(tmp_path, "amount = {}\nprint(amount['total'])\n")
    command = [sys.executable, "-m", "penstock.cli.main", "run", "prog.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == ExitCode.FAILURE
    assert ran.stdout == ""
    frames = [line for line in ran.stderr.splitlines() if "File " in line]
    assert frames == [f'  File "{file.name}", line 2, in <module>']
    assert ran.stderr.splitlines()[-1] == "KeyError: 'total'"


def test_the_command_prints_what_a_program_exits_with(tmp_path: Path) -> None:
    program(tmp_path, "import sys\nsys.exit('no orders today')\n")
    command = [sys.executable, "-m", "penstock.cli.main", "run", "prog.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (1, "no orders today\n")
