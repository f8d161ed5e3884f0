"""A directory of pipeline files as desired states."""

from __future__ import annotations

from pathlib import Path

from penstock.pipeline.engine.desired_state import DesiredState, InvalidFile
from penstock.pipeline.engine.packing import calls_functions
from penstock.pipeline.engine.pipeline_directory import load_file, pipelines_in

COPY = 'name: {name}\nguarantee: exactly_once\nsource: {{topic: in, schema: "id BIGINT"}}\nsink: {{topic: out}}\n'


def found_in(directory: Path) -> list[DesiredState | InvalidFile]:
    return pipelines_in(directory, {}, Path("/work"))


def test_every_yaml_file_is_a_pipeline_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(COPY.format(name="two"))
    (tmp_path / "a.yaml").write_text(COPY.format(name="one"))
    (tmp_path / "notes.txt").write_text("no pipeline")
    (tmp_path / "sub.yaml").mkdir()
    found = found_in(tmp_path)
    assert all(isinstance(each, DesiredState) for each in found)
    assert [(each.name, each.file) for each in found] == [
        ("one", str((tmp_path / "a.yaml").resolve())),
        ("two", str((tmp_path / "b.yml").resolve())),
    ]
    state = found[0]
    assert isinstance(state, DesiredState)
    assert (state.directory, state.guarantee, state.target) == ("/work", "exactly_once", "RUNNING")
    assert state.pipelines_dir == str(tmp_path.resolve())


def test_a_mistake_has_its_line_and_keeps_nothing_else_from_running(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: bad\nsource: {topic: in}\nsnk: {topic: out}\n")
    (tmp_path / "good.yaml").write_text(COPY.format(name="good"))
    bad, good = found_in(tmp_path)
    assert isinstance(bad, InvalidFile)
    assert bad.problems == (f"{tmp_path / 'bad.yaml'}:3: snk: unknown key (did you mean 'sink'?)",)
    assert (bad.name, bad.exit_code) == ("bad", 20)
    assert isinstance(good, DesiredState)


def test_two_files_with_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(COPY.format(name="copy"))
    (tmp_path / "b.yaml").write_text(COPY.format(name="copy"))
    first, second = found_in(tmp_path)
    assert isinstance(first, DesiredState)
    assert isinstance(second, InvalidFile)
    assert second.name == "b"
    assert "'copy' is also the name in a.yaml" in second.problems[0]


def test_a_broken_file_that_is_called_like_a_pipeline_hides_neither(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(COPY.format(name="b"))
    (tmp_path / "b.yaml").write_text("name: [\n")
    assert [(type(each), each.name) for each in found_in(tmp_path)] == [(DesiredState, "b"), (InvalidFile, "b.yaml")]


def test_a_pipeline_with_functions_is_one_like_the_others(tmp_path: Path) -> None:
    file = tmp_path / "py.yaml"
    file.write_text(COPY.format(name="py") + "transform: {python: 'm:f'}\n")
    state = load_file(file, tmp_path, {}, tmp_path)
    assert isinstance(state, DesiredState)
    assert calls_functions(state.spec)
