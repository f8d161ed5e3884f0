"""The command line as a whole, as far as it goes without a broker: usage, errors, exit codes, what is imported."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.core.exit_codes import ExitCode

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a directory of its own, so that no command finds or makes a ./.penstock/ of somebody's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP_SERVER", raising=False)


def failure_of(words: list[str], captured: Captured) -> tuple[int, str]:
    """Exit code and the one line on stderr."""
    exit_code = main(words)
    output = captured.readouterr()
    assert output.out == ""
    assert output.err.startswith("penstock: ")
    assert output.err.count("\n") == 1
    return exit_code, output.err.rstrip()


def test_version(capsys: Captured) -> None:
    assert main(["--version"]) == ExitCode.OK
    assert re.fullmatch(r"penstock \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["topic", "--help"],
        ["topic", "create", "--help"],
        ["topic", "list", "--help"],
        ["topic", "describe", "--help"],
        ["topic", "alter", "--help"],
        ["topic", "delete", "--help"],
        ["group", "--help"],
        ["group", "list", "--help"],
        ["group", "describe", "--help"],
        ["group", "reset-offsets", "--help"],
        ["group", "delete", "--help"],
        ["produce", "--help"],
        ["consume", "--help"],
        ["run", "--help"],
        ["validate", "--help"],
        ["up", "--help"],
        ["ps", "--help"],
        ["status", "--help"],
        ["stop", "--help"],
        ["restart", "--help"],
        ["logs", "--help"],
        ["docs", "--help"],
    ],
)
def test_help_has_examples(words: list[str], capsys: Captured) -> None:
    assert main(words) == ExitCode.OK
    help_text = capsys.readouterr().out
    assert "Usage: penstock" in help_text
    if words not in (["topic", "--help"], ["group", "--help"]):
        assert "Examples:\n    penstock" in help_text or "Examples:\n    seq" in help_text


def test_nothing_asked_for_is_answered_with_help(capsys: Captured) -> None:
    assert main([]) == ExitCode.OK
    assert "broker" in capsys.readouterr().out


def test_the_help_of_the_broker_comes_from_its_own_parser(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["broker", "--help"])
    assert ended.value.code == 0
    assert "--data-dir" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["topic"], "Missing command"),
        (["topic", "create"], "no topic given"),
        (["topic", "create", "a", "--topic", "b"], "two topics given"),
        (["topic", "create", "a", "--partitions", "many"], "--partitions"),
        (["topic", "create", "a", "--partitions", "0"], "--partitions"),
        (["topic", "create", "a", "--config", "x"], "--config x: expected NAME=VALUE"),
        (["topic", "alter", "a"], "nothing to alter"),
        (["topic", "delete"], "no topic given"),
        (["topic", "list", "--nonsense"], "--nonsense"),
        (["topic", "list", "-b", "a:b"], "the port must be a number"),
        (["topic", "list", "-b", "::1"], "brackets"),
        (["produce"], "no topic given: use TOPIC or --topic TOPIC"),
        (["produce", "t", "-z", "rar"], "'rar' is not one of"),
        (["produce", "t", "--acks", "2"], "'2' is not one of"),
        (["produce", "t", "-K", ""], "-K: the delimiter is empty"),
        (["produce", "t", "-H", "=x"], "-H =x: expected NAME=VALUE"),
        (["produce", "t", "-p", "-1"], "-p"),
        (["consume", "t", "-o", "middle"], "-o middle"),
        (["consume", "t", "-f", "%q"], "unknown token '%q'"),
        (["consume", "t", "-f", "%s", "--json"], "use one of the two"),
        (["consume", "t", "--group", "g", "-p", "0"], "-p with --group"),
        (["consume", "t", "--group", "g", "-o", "5"], "-o 5 with --group"),
        (["consume", "t", "-X", "x"], "-X x: expected NAME=VALUE"),
        (["broker", "--nonsense"], "--nonsense"),
        (["broker", "--listen", "localhost:http"], "--listen 'localhost:http'"),
        (["broker", "--listen", "localhost:70000"], "the port must be a number"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words: list[str], message: str, capsys: Captured) -> None:
    exit_code, line = failure_of(words, capsys)
    assert exit_code == ExitCode.USAGE
    assert message in line
    assert not Path(".penstock").exists()


@pytest.mark.parametrize("words", [["topic", "list"], ["produce", "t"], ["consume", "t"]])
def test_a_broker_that_is_not_there_is_noticed_at_once(words: list[str], capsys: Captured) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        exit_code, line = failure_of([*words, "--bootstrap-server", address], capsys)
    assert exit_code == ExitCode.UNREACHABLE
    assert address in line
    assert "refused" in line


def test_the_environment_names_the_broker_and_the_option_overrides_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVER", "127.0.0.1:nothing")
    assert "127.0.0.1:nothing" in failure_of(["topic", "list"], capsys)[1]
    assert "127.0.0.1:else" in failure_of(["topic", "list", "-b", "127.0.0.1:else"], capsys)[1]


IMPORTS = """
import sys
from penstock.cli.main import main
try:
    main({words!r})
except SystemExit:
    pass
print("IMPORTED", *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["--help"], {"confluent_kafka", "rich", "asyncio", "uvloop"}),
        (["--version"], {"typer", "confluent_kafka", "rich", "asyncio", "uvloop"}),
        (["broker", "--help"], {"typer", "click", "pydantic", "confluent_kafka", "rich"}),
    ],
)
def test_what_a_command_does_not_need_is_not_imported(words: list[str], unwanted: set[str]) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTS.format(words=words)], capture_output=True, text=True, timeout=60
    )
    assert finished.returncode == 0, finished.stderr
    imported = set(finished.stdout.partition("IMPORTED")[2].split())
    assert "penstock" in imported
    assert imported & unwanted == set()


@pytest.mark.parametrize(
    "words",
    [["broker", "--help"], ["bench", "--help"], ["topic", "create", "--help"], ["consume", "--help"]],
)
def test_help_has_one_style(words: list[str], capsys: Captured) -> None:
    with suppress(SystemExit):  # argparse ends the process after its help
        main(words)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: penstock {' '.join(words[:-1])} [OPTIONS]")
    assert re.fullmatch(r"  [A-Z].*\.", lines[2]), "a sentence, indented"
    assert "Options:" in lines
    assert [line for line in lines if re.fullmatch(r"  --help +Show this message and exit\.", line)]
    assert "  Examples:" in lines
    descriptions = [match[1] for line in lines if (match := re.fullmatch(r"  -.*?  +(\S.*)", line))]
    assert all(text[0].isupper() or text[0].isdigit() or text.startswith(("beginning", "%")) for text in descriptions)


def test_completion_for_shells(tmp_path: Path) -> None:
    def complete(words: str) -> list[str]:
        variables = {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        finished = subprocess.run(
            [sys.executable, "-m", "penstock.cli.main"],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        return finished.stdout.split()

    assert complete("penstock gr") == ["group"]
    assert complete("penstock group reset-offsets --to-e") == ["--to-earliest"]


@pytest.mark.parametrize("command", ["consume", "produce"])
def test_a_topic_is_an_argument_or_an_option(command: str, capsys: Captured) -> None:
    assert failure_of([command], capsys) == (2, "penstock: no topic given: use TOPIC or --topic TOPIC")
    code, line = failure_of([command, "a", "--topic", "b"], capsys)
    assert (code, line) == (2, "penstock: two topics given, 'a' and --topic 'b'; use one")


@pytest.mark.parametrize("before", [None, "before.properties"])
def test_a_command_config_is_that_of_one_command(
    before: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    """In a process that runs several commands, as a test does, all later ones authenticated with it."""
    monkeypatch.delenv("PENSTOCK_COMMAND_CONFIG", raising=False)
    if before is not None:
        monkeypatch.setenv("PENSTOCK_COMMAND_CONFIG", before)
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=\\u12\n")
    code, line = failure_of(["--command-config", str(file), "topic", "list", "-b", "127.0.0.1:1"], capsys)
    assert (code, f"{file}:1" in line) == (ExitCode.USAGE, True), line
    assert os.environ.get("PENSTOCK_COMMAND_CONFIG") == before
