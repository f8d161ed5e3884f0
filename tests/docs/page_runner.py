"""Runs the code blocks of a page of the documentation.

A page is one story: its blocks run in order, in one empty directory.

- `sh` blocks run under bash and must succeed. Processes that a block leaves in the background are stopped, by process
  group, after the page.
- `python` blocks run as programs, or under pytest if they define tests. One that begins with a comment that names a
  file is written to that file, where later blocks import it.
- A `yaml` block begins with a comment that names a file, and is written to that file.
- A `text` block is the output of the block before it: all of it, stdout and stderr. `...` stands for any text within a
  line, and on a line of its own for any lines.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
USER_PAGES: Final = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
REPOSITORY_PAGES: Final = [ROOT / "COMPATIBILITY.md", ROOT / "CONTRIBUTING.md"]
FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FILE_NAME: Final = re.compile(r"# ([\w.-]+\.(?:ya?ml|py))\n")
HAS_TESTS: Final = re.compile(r"^(?:def test_|class Test)", re.MULTILINE)
BLOCK_SECONDS_MAX: Final = 120
DOCUMENTED_PORTS: Final = ("8083", "9092", "9093", "9094", "2379", "2380")


class Block(NamedTuple):
    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent, language, code = match.groups()
        code = re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
        found.append(Block(language, code, text[: match.start()].count("\n") + 2))
    return found


def run_page(page: Path, directory: Path, environment: Mapping[str, str], python: str) -> None:
    """Runs the blocks with this interpreter, and compares what they print with the page."""
    # Instead of the documented ones, which may be in use on this machine.
    ports = {documented: str(free_port()) for documented in DOCUMENTED_PORTS}
    started: list[subprocess.Popen[bytes]] = []
    output = ""
    try:
        for number, block in enumerate(blocks(page)):
            place = f"{page.name}:{block.line}"
            code = re.sub("|".join(ports), lambda match: ports[match[0]], block.code)
            if block.language == "yaml":
                name = FILE_NAME.match(code)
                assert name, f"{place}: the first line of a yaml block names its file, as in `# revenue.yaml`"
                (directory / name[1]).write_text(code)
            elif block.language == "text":
                assert expected_output(code).fullmatch(output), f"{place}: this is not the output:\n{output}"
            else:
                process = _run(block._replace(code=code), directory, number, environment, python)
                started.append(process)
                exit_code = process.wait(BLOCK_SECONDS_MAX)
                output = (directory / f"output_{number}.txt").read_text()
                assert exit_code == 0, f"{place} ended with {exit_code}:\n{output}"
    finally:
        for process in started:
            _stop_group(process)


def _run(
    block: Block, directory: Path, number: int, environment: Mapping[str, str], python: str
) -> subprocess.Popen[bytes]:
    if block.language == "sh":
        command = ["bash", "-euo", "pipefail", "-c", block.code]
    else:
        name = FILE_NAME.match(block.code)
        program = directory / (name[1] if name else f"test_block_{number}.py")
        program.write_text(block.code)
        command = [python, str(program)]
        if HAS_TESTS.search(block.code):
            command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(program)]
    with (directory / f"output_{number}.txt").open("wb") as output:
        return subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=output, start_new_session=True
        )


def expected_output(text: str) -> re.Pattern[str]:
    """A pattern for the whole output: `...` within a line is any text, on a line of its own any number of lines."""
    pattern = ""
    for line in text.splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + r"[ ]*\n"
    return re.compile(pattern)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stop_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what a block left running; its process group is ours, as it was started with a session of its own."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    finally:
        process.wait()
