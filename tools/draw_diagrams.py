"""Draws the diagrams of the documentation into docs/images/.

Each diagram is a function that returns an `Svg`. Invariants: the files reference no other file and no host; colours
follow the reader's light or dark mode, and a panel of its own keeps a diagram readable where the mode is not known;
`--check` fails if a committed file differs from what this program draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

IMAGES: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
FONT: Final = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONOSPACE: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

# name: (stroke, fill) for light and for dark mode
PALETTE: Final = {
    "panel": (("#d0d7de", "#ffffff"), ("#30363d", "#0d1117")),
    "plain": (("#57606a", "#f6f8fa"), ("#8b949e", "#161b22")),
    "broker": (("#0969da", "#ddf4ff"), ("#4493f8", "#121d2f")),
    "spark": (("#bc4c00", "#fff1e5"), ("#db6d28", "#271a10")),
    "commit": (("#1a7f37", "#dafbe1"), ("#3fb950", "#12261e")),
    "crash": (("#cf222e", "#ffebe9"), ("#f85149", "#2d1618")),
}
TEXT: Final = ("#1f2328", "#e6edf3")
DIM: Final = ("#59636e", "#9198a1")


def _style() -> str:
    def rules(mode: int) -> str:
        lines = [f".text{{fill:{TEXT[mode]}}}", f".dim{{fill:{DIM[mode]}}}"]
        for name, colours in PALETTE.items():
            stroke, fill = colours[mode]
            lines.append(f".{name}{{stroke:{stroke};fill:{fill}}}.{name}-text{{fill:{stroke}}}")
            lines.append(f".{name}-line{{stroke:{stroke};fill:none}}.{name}-head{{fill:{stroke}}}")
        return "".join(lines)

    return (
        f"text{{font-family:{FONT};font-size:14px}}.mono{{font-family:{MONOSPACE};font-size:12.5px}}"
        ".title{font-weight:600}.small{font-size:12.5px}"
        f"{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}"
    )


@dataclass
class Svg:
    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, width: float, height: float, kind: str = "plain", *, dashed: bool = False
    ) -> None:
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" stroke-width="1.5" class="{kind}"{dash}/>'
        )

    def text(self, x: float, y: float, words: str, kind: str = "text", anchor: str = "middle") -> None:
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>')

    def labelled(self, x: float, y: float, width: float, height: float, kind: str, *lines: str) -> None:
        """A box with centred lines; the first is its title. A line that begins with a backtick is code."""
        self.box(x, y, width, height, kind)
        first = y + height / 2 - (len(lines) - 1) * 9 + 5
        for number, line in enumerate(lines):
            style = "text mono" if line.startswith("`") else "text title" if number == 0 else "dim small"
            self.text(x + width / 2, first + number * 18, line.strip("`"), style)

    def arrow(self, *points: tuple[float, float], kind: str = "plain", dashed: bool = False) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        (before_x, before_y), (x, y) = points[-2:]
        path = " ".join(f"{a},{b}" for a, b in points)
        self.parts.append(f'<polyline points="{path}" stroke-width="1.5" class="{kind}-line"{dash}/>')
        length = max(abs(x - before_x), abs(y - before_y))
        along_x, along_y = (x - before_x) / length, (y - before_y) / length
        left = f"{x - 9 * along_x - 4.5 * along_y},{y - 9 * along_y + 4.5 * along_x}"
        right = f"{x - 9 * along_x + 4.5 * along_y},{y - 9 * along_y - 4.5 * along_x}"
        self.parts.append(f'<polygon points="{x},{y} {left} {right}" class="{kind}-head"/>')

    def bolt(self, x: float, y: float, height: float, label: str) -> None:
        """A crash: a dashed line across the timeline, with its name above."""
        self.parts.append(
            f'<line x1="{x}" y1="{y}" x2="{x}" y2="{y + height}" stroke-width="2" stroke-dasharray="4 3"'
            ' class="crash-line"/>'
        )
        self.text(x, y - 7, label, "crash-text title")

    def render(self) -> str:
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
            f' height="{self.height}" role="img" aria-label="{escape(self.title)}">\n'
            f"<title>{escape(self.title)}</title>\n"
            f"<style>{_style()}</style>\n"
            f'<rect x="1" y="1" width="{self.width - 2}" height="{self.height - 2}" rx="10" class="panel"/>\n'
            f"{body}\n</svg>\n"
        )


def pipeline() -> Svg:
    svg = Svg(980, 352, "A pipeline: producers, broker, Spark, sink. Rows and progress are committed together.")
    svg.labelled(24, 112, 130, 76, "plain", "Producers", "any Kafka client")
    svg.box(204, 52, 190, 196, "broker")
    svg.text(299, 76, "Broker", "text title")
    svg.text(299, 94, "Penstock or Apache Kafka", "dim small")
    for number in range(3):
        svg.labelled(220, 110 + number * 44, 158, 34, "plain", f"`orders-{number}`")
    svg.box(444, 52, 176, 196, "spark")
    svg.text(532, 76, "Spark", "text title")
    svg.text(532, 94, "micro-batch 7", "dim small")
    for number, words in enumerate(("parse", "SQL or Python", "encode")):
        svg.labelled(460, 110 + number * 44, 144, 34, "plain", f"`{words}`")
    svg.box(676, 52, 280, 196, "commit", dashed=True)
    svg.text(816, 76, "one atomic commit", "commit-text title")
    svg.text(816, 94, "Kafka or database transaction, file list", "dim small")
    svg.labelled(692, 110, 248, 34, "plain", "`rows of batch 7`")
    svg.labelled(692, 154, 248, 34, "plain", "`dead letters of batch 7`")
    svg.labelled(692, 198, 248, 34, "plain", "`progress: batch 7 is done`")
    svg.arrow((154, 150), (200, 150))
    svg.arrow((394, 150), (440, 150))
    svg.arrow((620, 150), (672, 150))
    svg.text(816, 40, "Sink: topic, table, files", "text title")
    svg.arrow((816, 248), (816, 292), (532, 292), (532, 252), kind="commit", dashed=True)
    svg.text(674, 284, "after a crash", "commit-text small")
    svg.text(674, 312, "batch 7 is in the sink: skip it.  It is not: run it again.", "text small")
    svg.text(674, 332, "There is no third case.", "dim small")
    return svg


def _timeline(svg: Svg, y: float) -> None:
    svg.arrow((24, y), (svg.width - 24, y), kind="plain")
    svg.text(svg.width - 26, y + 20, "time", "dim small", "end")


def at_most_once() -> Svg:
    svg = Svg(860, 214, "at_most_once: progress is recorded first, so a crash loses the batch.")
    _timeline(svg, 82)
    svg.labelled(40, 52, 190, 60, "broker", "read batch 7", "offsets 600 to 699")
    svg.labelled(270, 52, 210, 60, "commit", "record progress", "next offset: 700")
    svg.labelled(590, 52, 210, 60, "plain", "write the rows", "600 to 699")
    svg.bolt(535, 34, 96, "crash")
    svg.labelled(
        270,
        148,
        530,
        48,
        "crash",
        "After the restart: reads from 700.",
        "Rows 600 to 699 are lost. None is written twice.",
    )
    svg.arrow((535, 130), (535, 146), kind="crash")
    return svg


def at_least_once() -> Svg:
    svg = Svg(860, 214, "at_least_once: the rows are written first, so a crash repeats the batch.")
    _timeline(svg, 82)
    svg.labelled(40, 52, 190, 60, "broker", "read batch 7", "offsets 600 to 699")
    svg.labelled(270, 52, 210, 60, "plain", "write the rows", "600 to 699")
    svg.labelled(590, 52, 210, 60, "commit", "record progress", "next offset: 700")
    svg.bolt(535, 34, 96, "crash")
    svg.labelled(
        270,
        148,
        530,
        48,
        "crash",
        "After the restart: reads from 600.",
        "Rows 600 to 699 are written twice. None is lost.",
    )
    svg.arrow((535, 130), (535, 146), kind="crash")
    return svg


def exactly_once() -> Svg:
    svg = Svg(860, 262, "exactly_once: rows and progress are one commit, so a crash leaves both or neither.")
    _timeline(svg, 98)
    svg.labelled(40, 68, 180, 60, "broker", "read batch 7", "offsets 600 to 699")
    svg.box(300, 44, 380, 108, "commit", dashed=True)
    svg.text(490, 140, "one transaction, one commit", "commit-text title")
    svg.labelled(316, 60, 168, 62, "plain", "write the rows", "600 to 699")
    svg.labelled(496, 60, 168, 62, "plain", "record progress", "batch 7 is done")
    svg.bolt(260, 34, 134, "crash")
    svg.bolt(720, 34, 134, "crash")
    svg.labelled(40, 188, 380, 56, "crash", "Before the commit: neither is there.", "The restart runs batch 7 again.")
    svg.labelled(
        440, 188, 380, 56, "crash", "After the commit: both are there.", "The restart finds batch 7 and skips it."
    )
    svg.arrow((260, 168), (260, 186), kind="crash")
    svg.arrow((720, 168), (720, 186), kind="crash")
    return svg


def commit_by_sink() -> Svg:
    svg = Svg(980, 316, "How exactly_once commits: a Kafka transaction, a database transaction, the list of files.")
    columns = (
        (
            "Sink: topic",
            "one Kafka transaction",
            ("`revenue-0: rows`", "`revenue-1: rows`", "`revenue.dlq-0: dead letters`", "`group revenue.batches: 7`"),
            "EndTxn(commit)",
            "read_committed readers see all of it, or nothing",
        ),
        (
            "Sink: table",
            "one database transaction",
            ("`revenue: rows`", "`penstock_dead_letters: rows`", "`penstock_ledger: batch 7`"),
            "COMMIT",
            "every reader sees all of it, or nothing",
        ),
        (
            "Sink: files",
            "files first, then their list",
            ("`part-00000.parquet`", "`part-00001.parquet`", "`_spark_metadata/7: both`"),
            "atomic rename",
            "Spark reads the files that are listed",
        ),
    )
    for number, (title, how, lines, commit, seen) in enumerate(columns):
        x = 20 + number * 318
        svg.text(x + 152, 32, title, "text title")
        svg.box(x, 46, 304, 212, "commit", dashed=True)
        svg.text(x + 152, 68, how, "commit-text title")
        for line_number, line in enumerate(lines):
            svg.labelled(x + 18, 80 + line_number * 35, 268, 29, "plain", line)
        svg.text(x + 152, 244, commit, "text mono")
        svg.text(x + 152, 282, seen, "dim small")
    svg.text(
        490, 304, "Progress is the last line of each box: the same commit makes it and the rows visible.", "dim small"
    )
    return svg


DIAGRAMS: Final[dict[str, Callable[[], Svg]]] = {
    "pipeline.svg": pipeline,
    "at-most-once.svg": at_most_once,
    "at-least-once.svg": at_least_once,
    "exactly-once.svg": exactly_once,
    "commit-by-sink.svg": commit_by_sink,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    check = parser.parse_args().check
    different = []
    for name, draw in DIAGRAMS.items():
        text = draw().render()
        file = IMAGES / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        different.append(name)
        if not check:
            IMAGES.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    if check and different:
        print(f"docs/images/ is out of date: {', '.join(different)}; run `make images`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
