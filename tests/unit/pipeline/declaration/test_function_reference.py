"""Functions that a pipeline names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.declaration.function_reference import FunctionMissing, argument_count, load_function


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_module_beside_the_pipeline_is_found(directory: Path) -> None:
    (directory / "beside_a.py").write_text("def double(x):\n    return 2 * x\n")
    assert load_function("beside_a:double", directory)(21) == 42


@pytest.mark.parametrize(
    ("module", "reference", "message"),
    [
        ("", "beside_c:f", "there is no module beside_c, neither beside the pipeline nor installed"),
        ("def double(): ...", "beside_b:duoble", r"has no function duoble \(did you mean 'double'\?\)"),
        ("double = 5", "beside_b:double", "has no function double"),
        ("import nowhere_at_all", "beside_b:f", "the module beside_b needs nowhere_at_all, which is not installed"),
        ("1/0", "beside_b:f", "cannot be imported: ZeroDivisionError: division by zero"),
        ("x = (", "beside_b:f", "cannot be imported: SyntaxError"),
    ],
)
def test_what_is_missing_is_said_in_one_line(directory: Path, module: str, reference: str, message: str) -> None:
    (directory / "beside_b.py").write_text(module)
    with pytest.raises(FunctionMissing, match=message):
        load_function(reference, directory)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda: None, 0),
        (lambda a: None, 1),
        (lambda a, b: None, 2),
        (lambda a, b=1, c=2: None, 2),
        (lambda *a: None, 2),
        (lambda a, *, b=1: None, 1),
    ],
)
def test_arguments_are_counted_up_to_two(function: Callable[..., Any], count: int) -> None:
    assert argument_count(function) == count
