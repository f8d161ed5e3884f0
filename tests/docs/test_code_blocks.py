"""Runs every code block of the documentation.

A page is one story: its blocks run in order, in one empty directory.

- `sh` blocks run under bash and must succeed. Processes that a block leaves in the background are stopped, by process
  group, after the page.
- `python` blocks run as programs, or under pytest if they define tests.
- A `yaml` block begins with a comment that names a file, and is written to that file.
- A `text` block is the output of the block before it: all of it, stdout and stderr. `...` stands for any text within a
  line, and on a line of its own for any lines.

A block in another language, or in none, would not be checked; there is none.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "COMPATIBILITY.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/*.md")),
]
FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FILE_NAME: Final = re.compile(r"# ([\w.-]+\.ya?ml)\n")
LANGUAGES: Final = ("sh", "python", "yaml", "text")
BLOCK_SECONDS_MAX: Final = 120
DOCUMENTED_PORT: Final = 9092


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
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    with (directory / f"output_{number}.txt").open("wb") as output:
        return subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=output, start_new_session=True
        )


@pytest.mark.slow
@pytest.mark.timeout(900)  # a page may start Spark several times
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.language for b in blocks(page))], ids=lambda p: p.name
)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    port = str(free_port())  # instead of 9092, which may be in use on this machine
    started: list[subprocess.Popen[bytes]] = []
    output = ""
    try:
        for number, block in enumerate(blocks(page)):
            place = f"{page.name}:{block.line}"
            code = block.code.replace(str(DOCUMENTED_PORT), port)
            if block.language == "yaml":
                name = FILE_NAME.match(code)
                assert name, f"{place}: the first line of a yaml block names its file, as in `# revenue.yaml`"
                (tmp_path / name[1]).write_text(code)
            elif block.language == "text":
                assert expected_output(code).fullmatch(output), f"{place}: this is not the output:\n{output}"
            else:
                process = run(block._replace(code=code), tmp_path, number)
                started.append(process)
                exit_code = process.wait(BLOCK_SECONDS_MAX)
                output = (tmp_path / f"output_{number}.txt").read_text()
                assert exit_code == 0, f"{place} ended with {exit_code}:\n{output}"
    finally:
        for process in started:
            stop_group(process)


def expected_output(text: str) -> re.Pattern[str]:
    """A pattern for the whole output: `...` within a line is any text, on a line of its own any number of lines."""
    pattern = ""
    for line in text.splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + r"[ ]*\n"
    return re.compile(pattern)


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what a block left running; its process group is ours, as it was started with a session of its own."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    finally:
        process.wait()


@pytest.mark.parametrize(
    ("text", "output", "matches"),
    [
        ("one\ntwo\n", "one\ntwo\n", True),
        ("one\n", "one\ntwo\n", False),
        ("two\n", "one\ntwo\n", False),
        ("offset ... of orders\n", "offset 17 of orders\n", True),
        ("offset ... of orders\n", "offset 17\nof orders\n", False),
        ("...\ntwo\n", "zero\none\ntwo\n", True),
        ("one\n...\n", "one\ntwo\nthree\n", True),
        ("one\n...\n", "two\none\n", False),
        ("a.b\n", "a-b\n", False),
    ],
)
def test_an_output_block_is_compared_whole(text: str, output: str, matches: bool) -> None:
    assert bool(expected_output(text).fullmatch(output)) is matches


def test_every_block_is_checked() -> None:
    unchecked = [
        f"{page.name}:{block.line}" for page in PAGES for block in blocks(page) if block.language not in LANGUAGES
    ]
    assert unchecked == []


def test_an_output_block_follows_a_block_that_runs() -> None:
    for page in PAGES:
        before = ""
        for block in blocks(page):
            assert block.language != "text" or before in ("sh", "python"), f"{page.name}:{block.line}"
            before = block.language


def test_every_link_and_image_exists() -> None:
    """Of links to files of ours: the file, and the heading where the link names one."""
    link = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
    for page in [
        *PAGES,
        *sorted(ROOT.glob("[AC]*.md")),
        *sorted(ROOT.glob("docs/adr/*.md")),
        ROOT / "examples/README.md",
    ]:
        for match in link.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
            path, heading = match.groups()
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {match[0]}"
            if heading:
                headings = re.findall(r"^#+ (.*)$", FENCE.sub("", target.read_text(encoding="utf-8")), re.MULTILINE)
                anchors = [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings]
                assert heading in anchors, f"{page.name}: {match[0]}"


def test_images_load_nothing_from_elsewhere() -> None:
    images = sorted(ROOT.glob("docs/images/*.svg"))
    assert images
    for image in images:
        text = image.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?://|@import|<script|url\((?!#)", text), image.name
