"""What the wheel brings: commands, types, documentation; no Java is needed on the path."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.new_user.environment import User

pytestmark = pytest.mark.new_user


def test_the_machine_is_a_new_users(user: User) -> None:
    path = user.environment["PATH"]
    assert shutil.which("java", path=path) is None
    assert shutil.which("make", path=path) is None
    assert "JAVA_HOME" not in user.environment
    found = user.command(str(user.python), "-c", "import penstock; print(penstock.__file__)").out.strip()
    assert found.startswith(str(user.python.parent.parent)), "the wheel, and not this checkout"


def test_version_help_types_and_documentation(user: User) -> None:
    assert user.penstock("--version").out.startswith("penstock ")
    for command in ("topic", "produce", "consume", "run", "validate", "up", "docs"):
        assert command in user.penstock("--help").out
    typed = "import importlib.resources as r; print((r.files('penstock') / 'py.typed').is_file())"
    assert user.command(str(user.python), "-c", typed).out == "True\n"
    pages = json.loads(user.penstock("docs", "--json").out)["pages"]
    assert {"overview", "tutorial", "pipelines", "recipes", "cli", "errors"} <= {page["page"] for page in pages}
    assert user.penstock("docs", "tutorial").out.startswith("# Tutorial")
