"""The user of each test, and the environment that `make new-user` has made for all of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.new_user.environment import VARIABLE, User, make_tools


@pytest.fixture(scope="session")
def venv() -> Path:
    if VARIABLE not in os.environ:
        pytest.fail("run these with `make new-user`, which installs the wheel into a new environment first")
    return Path(os.environ[VARIABLE])


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tools(tmp_path_factory.mktemp("path") / "bin")


@pytest.fixture
def user(venv: Path, tools: Path, tmp_path: Path) -> User:
    directory = tmp_path / "work"
    directory.mkdir()
    return User(venv, tools, directory)
