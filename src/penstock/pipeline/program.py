"""Runs the author's program, as `python FILE` would, inside the process of a command.

Owns two things that a program should not notice: Spark is there when a module-level `@udf("int")` or `col("x")` needs
it, and a mistake is shown as Python shows it, without the frames of what runs the program.

It imports nothing of Spark. What a program does is the author's.
"""

from __future__ import annotations

import ast
import runpy
import sys
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import penstock
from penstock.pipeline.declaration.spec_errors import InvalidPipeline
from penstock.pipeline.failure import PipelineFailed

_PYSPARK: Final = "pyspark"


class ProgramFailed(Exception):
    """An exception that the program did not handle. `str(error)` is what Python would print of it."""


@dataclass(frozen=True, slots=True)
class EarlySession:
    """A session that must exist before the program runs: the name and the settings of the pipeline that it declares."""

    name: str
    spark: dict[str, Any] = field(default_factory=dict)


def run_program(file: Path, start_session: Callable[[EarlySession], object] | None = None) -> None:
    """Runs the file as `__main__`. What it raises and is no failure of a pipeline of ours becomes ProgramFailed.

    `start_session` is called first if the program needs Spark before it declares its pipeline.
    """
    wanted = early_session(file)
    if wanted is not None and start_session is not None:
        start_session(wanted)
    sys.path.insert(0, str(file.resolve().parent))
    try:
        runpy.run_path(str(file), run_name="__main__")
    except (InvalidPipeline, PipelineFailed):
        raise
    except Exception as failure:
        raise ProgramFailed(shown(failure)) from failure


def early_session(file: Path) -> EarlySession | None:
    """None: the program does not use pyspark itself, or the settings of its pipeline are only known when it runs.

    pyspark's functions need a running Spark: `udf` to parse a type that is given as text, `col` and `lit` to make a
    column. A program that imports pyspark may call them before it reads its first source.
    """
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError):
        return None  # running it says where
    if not any(_imports_pyspark(statement) for statement in ast.walk(tree)):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "Pipeline"]
    name, spark = file.stem, {}
    if calls:
        try:
            keywords = {keyword.arg: keyword.value for keyword in calls[0].keywords}
            if "spark" in keywords:
                spark = dict(ast.literal_eval(keywords["spark"]))
            given = calls[0].args[0] if calls[0].args else keywords.get("name")
            if isinstance(given, ast.Constant):
                name = str(given.value)
        except (ValueError, TypeError):
            return None
    return EarlySession(name, spark)


def shown(failure: BaseException) -> str:
    """The exception as Python prints it, with the frames of the author's own files only."""
    parts = []
    for raised in _chain(failure):
        frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if _is_authors(frame.filename)]
        if not frames and raised is not failure:
            continue  # an exception within a library; what it led to is the author's concern
        stack = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
        parts.append("".join([*stack, *_last_lines(raised)]))
    return "\n".join(parts).rstrip("\n")


def line_of(failure: BaseException, file: Path) -> int:
    """The innermost line of the program itself; 0 if it was not in it."""
    found = int(getattr(failure, "lineno", None) or 0)
    for frame, line in traceback.walk_tb(failure.__traceback__):
        if frame.f_code.co_filename == str(file):
            found = line
    return found


def _chain(failure: BaseException) -> list[BaseException]:
    """The exception and those that led to it, first cause first."""
    chain = [failure]
    while True:
        first = chain[0]
        earlier = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if earlier is None or earlier in chain:
            return chain
        chain.insert(0, earlier)


def _last_lines(raised: BaseException) -> list[str]:
    kind = type(raised)
    if kind.__module__.partition(".")[0] not in (_PYSPARK, "py4j"):
        return traceback.format_exception_only(raised)
    from penstock.pipeline.spark.messages import first_sentence

    # Query plans and the stack traces of Java follow the first sentence.
    return [f"{kind.__module__}.{kind.__qualname__}: {first_sentence(str(raised))}\n"]


_LIBRARIES: Final = tuple(
    str(Path(path).resolve())
    for path in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(penstock.__file__).parent),
    }
)


def _is_authors(filename: str) -> bool:
    if filename.startswith("<"):
        return False  # runpy and importlib are frozen
    path = str(Path(filename).resolve())
    return not any(path.startswith(library + "/") for library in _LIBRARIES)


def _imports_pyspark(statement: ast.AST) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name.partition(".")[0] == _PYSPARK for alias in statement.names)
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == _PYSPARK


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
