"""Every code block of the documentation runs.

A page is one story: its blocks run in order, in one empty directory. `sh` blocks run under bash and must succeed;
`python` blocks run as programs, or under pytest if they define tests. What a block started in the background is
stopped, by process group, when its page is through. A block in another language, or in none, is output or a sketch and
is not run; the test at the end says how many there may be.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "COMPATIBILITY.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
BLOCK_SECONDS_MAX = 120
DOCUMENTED_PORT = 9092


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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run(block: Block, directory: Path, number: int) -> subprocess.Popen[bytes]:
    if block.language == "sh":
        command = ["bash", "-euo", "pipefail", "-c", block.code]
    else:
        program = directory / f"test_block_{number}.py"
        program.write_text(block.code)
        command = [sys.executable, str(program)]
        if re.search(r"^def test_", block.code, re.MULTILINE):
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(program)]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with (directory / f"output_{number}.txt").open("wb") as output:
        return subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=output, start_new_session=True
        )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.language for b in blocks(page))], ids=lambda p: p.name
)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    # The pages say 9092, which somebody may be using here.
    port = str(free_port())
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number, block in enumerate(blocks(page)):
            if block.language not in ("sh", "python"):
                continue
            code = block.code.replace(str(DOCUMENTED_PORT), port)
            process = run(block._replace(code=code), tmp_path, number)
            started.append(process)
            exit_code = process.wait(BLOCK_SECONDS_MAX)
            output = (tmp_path / f"output_{number}.txt").read_text()
            assert exit_code == 0, f"{page.name}:{block.line} ended with {exit_code}:\n{output}"
    finally:
        for process in started:
            stop_group(process)


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what a block left running; its process group is ours, as it was started with a session of its own."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def test_sketches_are_counted() -> None:
    """Blocks run. Those that do not are listed here, so that one more is a decision."""
    sketches = {page.name: sum(block.language not in ("sh", "python") for block in blocks(page)) for page in PAGES}
    assert {name: count for name, count in sketches.items() if count} == {}
