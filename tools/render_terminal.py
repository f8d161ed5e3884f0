"""Runs a command and renders its output as an SVG of a terminal: docs/images/demo.svg is `make demo`.

    python tools/render_terminal.py --prompt 'make demo' --output docs/images/demo.svg -- python examples/demo.py

The output is real: it is captured from the run, colours included. Invariants: the SVG references no other file and no
host (Rich embeds the addresses of web fonts; they are removed); a command that fails leaves no SVG.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

COLUMNS: Final = 108
_FONT_FACE: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_CURSOR: Final = re.compile(r"\x1b\[\?25[lh]\n?")  # hides and shows the cursor
_ADDRESS: Final = re.compile(r"https?://(?!www\.w3\.org/)[^\s\"')]+")


def capture(command: list[str]) -> str:
    """The output of a command that succeeds. Rich keeps its colours and leaves out what it would redraw."""
    environment = os.environ | {"FORCE_COLOR": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(COLUMNS)}
    finished = subprocess.run(
        command, check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if finished.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with exit code {finished.returncode}:\n{finished.stdout}")
    return _CURSOR.sub("", finished.stdout)


def render(prompt: str, output: str, title: str) -> str:
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.assemble(("$ ", "bold green"), (prompt, "bold")))
        console.print(Text.from_ansi(output.rstrip()))
        # The id decides the names of classes in the SVG; a fixed one keeps them the same from run to run.
        svg = console.export_svg(title=title, unique_id="terminal")
    svg = _FONT_FACE.sub("", svg)
    svg = re.sub(r"<!-- .*? -->\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono'")
    if found := _ADDRESS.search(svg):
        raise SystemExit(f"the SVG refers to {found[0]}")
    return svg


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prompt", required=True, help="the command that the picture shows")
    parser.add_argument("--title", default="penstock")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("command", nargs="+", help="the command to run, after --")
    options = parser.parse_args()
    svg = render(options.prompt, capture(options.command), options.title)
    options.output.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
