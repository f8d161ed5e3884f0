"""Plots the results: every ratio beside its target, and the growth measurements.

matplotlib is optional (`penstock[bench]`): without it the report has a note and no plots.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from penstock.bench.figures import Spread, show_ratio
from penstock.bench.metric import Target
from penstock.bench.peers import APACHE_KAFKA, PENSTOCK, STOCK_SPARK
from penstock.bench.results import Results, Row, Section, Verdict
from penstock.bench.sizes import GB

_COLOURS: Final = {PENSTOCK: "#1f6f8b", APACHE_KAFKA: "#888888", STOCK_SPARK: "#888888"}
_VERDICT_COLOURS: Final = {
    Verdict.MET: "#2a7f3f",
    Verdict.MISSED: "#b3261e",
    Verdict.NO_DIFFERENCE: "#b07d12",
    Verdict.UNJUDGED: "#888888",
    Verdict.NO_TARGET: "#888888",
}
_MARKERS: Final = {
    Verdict.MET: "o",
    Verdict.MISSED: "X",
    Verdict.NO_DIFFERENCE: "D",
    Verdict.UNJUDGED: "o",
    Verdict.NO_TARGET: "o",
}
_RATIO_TICKS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)

_MILLISECOND_TICKS: Final = tuple(step * 10**power for power in range(6) for step in (1, 2, 5))


def draw(results: Results, directory: Path) -> list[Path]:
    """Writes the plots and returns their files. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    files: list[Path] = []
    if file := _draw_ratios(results, directory, pyplot):
        files.append(file)
    for section in results.sections:
        if section.name == "growth" and (file := _draw_growth(results, section, directory, pyplot)):
            files.append(file)
        if section.name == "spark-growth" and (file := _draw_spark_growth(results, section, directory, pyplot)):
            files.append(file)
    return files


def _draw_ratios(results: Results, directory: Path, pyplot: Any) -> Path | None:
    labelled = [
        (row, _label(section, row))
        for section in results.sections
        for row in section.rows
        if row.ratio and row.metric.target and (_bound(row.metric.target) is not None)
    ]
    if not labelled:
        return None
    figure, axes = pyplot.subplots(figsize=(10, 1.5 + 0.36 * len(labelled)))
    for position, (row, _) in enumerate(labelled):
        assert row.ratio is not None
        assert row.metric.target is not None
        colour = _VERDICT_COLOURS[row.verdict]
        axes.plot([row.ratio.low, row.ratio.high], [position, position], color=colour, linewidth=2, alpha=0.5)
        axes.plot(row.ratio.median, position, _MARKERS[row.verdict], color=colour, markersize=8)
        axes.plot(_bound(row.metric.target), position, "|", color="black", markersize=16)
        text = f" {show_ratio(row.ratio.median)}"
        axes.annotate(text, (row.ratio.median, position), textcoords="offset points", xytext=(2, 6), fontsize=8)
    axes.axvline(1.0, color="#bbbbbb", linewidth=1, zorder=0)
    axes.set_xscale("log")
    _label_ticks(axes, _RATIO_TICKS, "x")
    axes.set_yticks(range(len(labelled)), [label for _, label in labelled])
    axes.set_ylim(len(labelled) - 0.4, -0.6)
    others = " or ".join(title for name, title in results.contestants.items() if name != PENSTOCK)
    axes.set_xlabel(f"Penstock / {others}: median, and range over {results.rounds} rounds")
    legend = "a green dot is met, a red cross is missed, a yellow diamond lies within the spread of the rounds"
    axes.set_title(f"Ratios and their targets (bar): {legend}", fontsize=10, loc="left")
    return _save(figure, directory / "ratios.png", pyplot)


def _draw_growth(results: Results, section: Section, directory: Path, pyplot: Any) -> Path | None:
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    sizes: set[float] = set()
    for name, title in results.contestants.items():
        for what, style in (("p50", "-o"), ("p99", "--s")):
            points = _growth_points(section, name, what)
            if points:
                sizes |= {size for size, _ in points}
                axes.plot(*zip(*points, strict=True), style, color=_COLOURS[name], label=f"{title}, {what}")
    if not sizes:
        pyplot.close(figure)
        return None
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    _label_ticks(axes, sorted(sizes), "")
    axes.set_xlabel("log, GB")
    axes.set_ylabel("one fetch at a random offset, ms")
    axes.set_title(section.title, fontsize=10, loc="left")
    axes.legend(fontsize=8)
    return _save(figure, directory / "growth.png", pyplot)


def _draw_spark_growth(results: Results, section: Section, directory: Path, pyplot: Any) -> Path | None:
    if not any(row.readings for row in section.rows):
        return None
    # One scale for both, so that the cost of a row and of a partition can be compared.
    figure, both_axes = pyplot.subplots(1, 2, figsize=(11, 4.8), sharey=True)
    for axes, what in zip(both_axes, ("partitions", "rows"), strict=True):
        rows = [row for row in section.rows if row.metric.key.startswith(f"{section.name}.{what}.")]
        counts = [int(row.metric.key.rsplit(".", 1)[1]) for row in rows]
        for name in section.contestants:
            spreads = [(count, row.spread(name)) for count, row in zip(counts, rows, strict=True)]
            _draw_costs(
                axes,
                [(count, spread) for count, spread in spreads if spread is not None],
                colour=_COLOURS[name],
                label=results.contestants[name],
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.margins(0.12, 0.12)
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.set_xticks([], minor=True)
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
        axes.set_xlabel("rows of a micro-batch" if what == "rows" else "partitions of the topic")
        # After its own count, a row's title names the constant.
        same = rows[0].metric.title.split(", ", 1)[1] if rows else ""
        axes.set_title(f"more {what}, the same {same}", fontsize=9)
    _label_milliseconds(both_axes[0])
    both_axes[0].set_ylabel(f"one micro-batch, ms: median and range of {results.rounds} rounds")
    both_axes[0].legend(fontsize=8, loc="upper left")
    figure.suptitle(section.title, fontsize=10)
    return _save(figure, directory / "spark-growth.png", pyplot)


def _draw_costs(axes: Any, points: Sequence[tuple[int, Spread]], *, colour: str, label: str) -> None:
    if not points:
        return
    counts = [count for count, _ in points]
    medians = [spread.median for _, spread in points]
    ranges = [
        [spread.median - spread.low for _, spread in points],
        [spread.high - spread.median for _, spread in points],
    ]
    axes.errorbar(counts, medians, yerr=ranges, fmt="-o", color=colour, label=label, capsize=3)
    for count, median in zip(counts, medians, strict=True):
        axes.annotate(
            f"{median:,.0f}", (count, median), textcoords="offset points", xytext=(6, -11), fontsize=8, color=colour
        )


def _label_milliseconds(axes: Any) -> None:
    """Round numbers on a logarithmic axis."""
    low, high = axes.get_ylim()
    ticks = [tick for tick in _MILLISECOND_TICKS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(low, high)


def _label_ticks(axes: Any, candidates: Sequence[float], unit: str) -> None:
    """Round numbers at the ticks of a logarithmic axis, instead of powers of ten."""
    low, high = axes.get_xlim()
    ticks = [tick for tick in candidates if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}{unit}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)


def _growth_points(section: Section, contestant: str, what: str) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for row in section.rows:
        _, size, *rest = row.metric.key.split(".")
        spread = row.spread(contestant)
        if rest == [what] and spread is not None:
            points.append((int(size) / GB, spread.median))
    return points


def _label(section: Section, row: Row) -> str:
    """A row that explains the one above it is drawn under its name."""
    title = row.metric.title
    if title.startswith("· "):
        above = section.rows[: section.rows.index(row)]
        parent = next(each.metric.title for each in reversed(above) if not each.metric.title.startswith("· "))
        title = f"{parent}: {title.removeprefix('· ')}"
    return title if section.name == "throughput" else f"{section.name}: {title}"


def _bound(target: Target) -> float | None:
    return target.ratio_at_least if target.ratio_at_least is not None else target.ratio_at_most


def _save(figure: Any, file: Path, pyplot: Any) -> Path:
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    pyplot.close(figure)
    return file
