"""What ARCHITECTURE.md claims and import-linter cannot see: names within modules, and what a start imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
CONTRACTS = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
# The packages of import-linter's contract: one list for both checks.
PURE_PACKAGES = next(
    [module.removeprefix("penstock.") for module in contract["source_modules"]]
    for contract in CONTRACTS
    if contract["name"].startswith("Pure packages")
)

# Randomness, clocks and files that are reached through modules which a pure package may import, or through builtins.
IMPURE_NAMES = {
    "getrandom",
    "urandom",
    "fromtimestamp",
    "now",
    "today",
    "utcnow",
    "times",
    "getpid",
    "environ",
    "getenv",
}
IMPURE_BUILTINS = {"open", "input", "print"}
MODULES_WITH_IMPURE_NAMES = {"os", "datetime", "date"}

# Their public names are re-exported on first use, so that `import penstock` is instant.
LAZY_INIT_MODULES = {SOURCE / name / "__init__.py" for name in (".", "connect", "spark", "testing")}


def modules(package: str) -> Iterator[Path]:
    found = list((SOURCE / package).rglob("*.py"))
    assert found, f"{package} is not there"
    return iter(found)


def impure_uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each use of an impure builtin or of an impure name of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_BUILTINS:
                yield node.lineno, f"{name}()"
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if (
                owner in MODULES_WITH_IMPURE_NAMES and name in IMPURE_NAMES
            ):
                yield node.lineno, f"{owner}.{name}"
            case ast.ImportFrom(module=module) if module in MODULES_WITH_IMPURE_NAMES:
                yield from (
                    (node.lineno, f"{module}.{alias.name}") for alias in node.names if alias.name in IMPURE_NAMES
                )


@pytest.mark.parametrize("package", PURE_PACKAGES)
def test_pure_packages_use_no_randomness_clock_environment_or_files(package: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line} uses {name}"
        for path in modules(package)
        for line, name in impure_uses(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import os\nnonce = os.urandom(16)", "os.urandom"),
        ("from os import urandom", "os.urandom"),
        ("from datetime import datetime\nnow = datetime.now()", "datetime.now"),
        ("import os\nhome = os.environ['HOME']", "os.environ"),
        ("text = open('file').read()", "open()"),
    ],
)
def test_impure_uses_are_found(source: str, name: str) -> None:
    assert name in [found for _, found in impure_uses(ast.parse(source))]


def test_init_modules_only_re_export() -> None:
    allowed = (ast.Import, ast.ImportFrom)
    found = []
    for path in SOURCE.rglob("__init__.py"):
        if path in LAZY_INIT_MODULES:
            continue
        for statement in ast.parse(path.read_text()).body:
            is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            is_all = isinstance(statement, ast.Assign) and [ast.unparse(each) for each in statement.targets] == [
                "__all__"
            ]
            if not (isinstance(statement, allowed) or is_docstring or is_all):
                found.append(f"{path.relative_to(SOURCE)}:{statement.lineno}")
    assert found == []


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        (
            "penstock.broker.main",
            "penstock.columns penstock.pipeline penstock.broker.etcd h11 "
            "confluent_kafka numba numpy pandas pyarrow pyspark",
        ),
        ("penstock.wire.client", "penstock.client penstock.broker confluent_kafka numba numpy pandas pyarrow pyspark"),
        ("penstock.cli.main", "penstock.broker penstock.pipeline confluent_kafka numba numpy pandas pyarrow pyspark"),
    ],
)
def test_a_start_imports_only_what_it_needs(module: str, unneeded: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr
    assert set(unneeded.split()) & set(finished.stdout.split()) == set()


def test_the_files_that_architecture_names_exist() -> None:
    """A path may be relative to its section, as `spark/internals.py` is in the one about `pipeline/`."""
    root = SOURCE.parents[1]
    mentioned = re.findall(r"`([\w./*-]+(?:/|\.py))`", (root / "ARCHITECTURE.md").read_text())
    assert len(mentioned) > 50
    missing = [path for path in mentioned if not any(SOURCE.rglob(path.rstrip("/"))) and not any(root.glob(path))]
    assert missing == []
