"""Prints the results as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.bench.figures import Spread, show, show_ratio
from penstock.bench.metric import Unit
from penstock.bench.results import Results, Row, Verdict

_MARKS = {
    Verdict.MET: "[green]met[/green]",
    Verdict.MISSED: "[bold red]MISSED[/bold red]",
    Verdict.NO_DIFFERENCE: "[yellow]no difference shown[/yellow]",
    Verdict.UNJUDGED: "[yellow]not judged[/yellow]",
    Verdict.NO_TARGET: "",
}


def print_table(results: Results, console: Console) -> None:
    for section in results.sections:
        names = section.contestants
        table = Table(title=section.title, title_justify="left", title_style="bold", expand=False)
        table.add_column("what")
        for name in names:
            table.add_column(f"{results.contestants[name]}\nmedian (min-max)", justify="right")
        if len(names) > 1:
            table.add_column("ratio\n(by round)", justify="right")
        table.add_column("target", no_wrap=True)
        table.add_column("", no_wrap=True)
        for row in section.rows:
            table.add_row(*_cells(row, names))
        console.print(table)
        console.print()
    _print_notes(results, console)


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    cells = [row.metric.title]
    cells += [_figure(row.spread(name), row.metric.unit) for name in names]
    if len(names) > 1:
        ratio = row.ratio
        cells.append(f"{show_ratio(ratio.median)} ({show_ratio(ratio.low)}-{show_ratio(ratio.high)})" if ratio else "-")
    return [*cells, str(row.metric.target or ""), _MARKS[row.verdict]]


def _figure(spread: Spread | None, unit: Unit) -> str:
    return show(spread, unit) if spread else "-"


def _print_notes(results: Results, console: Console) -> None:
    machine = results.machine
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; librdkafka {machine['librdkafka']}; "
        f"{results.rounds} rounds after a discarded one; load average at the start {machine['load_average_at_start']}",
        soft_wrap=True,
        highlight=False,
    )
    for note in results.notes:
        console.print(f"[yellow]note[/yellow] {escape(note)}", soft_wrap=True, highlight=False)
    for failure in results.failures:
        console.print(f"[bold red]failed[/bold red] {escape(_short(failure))}", soft_wrap=True, highlight=False)
    console.print(_summary(Counter(row.verdict for row in results.rows())), highlight=False)


def _summary(verdicts: Counter[Verdict]) -> str:
    met, missed, undecided = verdicts[Verdict.MET], verdicts[Verdict.MISSED], verdicts[Verdict.NO_DIFFERENCE]
    summary = f"{met} of {met + missed + undecided} targets met"
    return f"{summary}, {missed} missed, {undecided} within the spread of the rounds" if undecided else summary


def _short(failure: str) -> str:
    """The JSON has the whole traceback of a broker; the table its first and last line."""
    first, *rest = failure.splitlines()
    return f"{first} ... {rest[-1].strip()}" if rest else first
