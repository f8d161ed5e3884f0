"""`penstock bench`: the options, the run, the reports. The composition root of the benchmark."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.argument_parser import CommandParser

if TYPE_CHECKING:
    from penstock.bench.measurement import Measurement
    from penstock.bench.peers import Field
    from penstock.bench.results import Results

DEFAULT_OUTPUT: Final = Path("build/bench")
DEFAULT_ROUNDS: Final = 5
_MEASUREMENT_NAMES: Final = (
    "throughput",
    "latency",
    "start",
    "memory",
    "partitions",
    "growth",
    "transactions",
    "groups",
    "tls",
    "compaction",
    "restart",
    "offsets",
    "quota",
    "metrics",
    "floods",
    "replication",
    "connect-rows",
    "connect-table",
    "connect-start",
    "spark-read",
    "spark-copy",
    "spark-table",
    "spark-latency",
    "spark-start",
    "spark-growth",
)
# Names that stand for several measurements.
_FAMILIES: Final = {
    family: tuple(name for name in _MEASUREMENT_NAMES if name.startswith(f"{family}-"))
    for family in ("connect", "spark")
}

_EXAMPLES: Final = """\
Examples:
  penstock bench                                  everything, five rounds: more than an hour
  penstock bench --quick --rounds 1               a smoke test of a few minutes
  penstock bench --only start latency             some measurements
  penstock bench --only spark --json              the Spark measurements, as JSON

Exit codes: 0 every measurement was taken, 1 a measurement failed, 2 wrong usage, 130 interrupted
"""

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130


def arguments_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        "penstock bench",
        description="Measure the broker beside Apache Kafka, and pipelines beside stock Spark, on this machine.",
        epilog=_EXAMPLES,
    )
    names = (*_MEASUREMENT_NAMES, *_FAMILIES)
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", help=f"Measure only these: {', '.join(names)}."
    )
    parser.add_argument(
        "--rounds",
        type=_positive,
        default=DEFAULT_ROUNDS,
        metavar="N",
        help=f"The number of rounds. Default: {DEFAULT_ROUNDS}.",
    )
    parser.add_argument("--quick", action="store_true", help="Small sizes: a smoke test, not comparable.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    parser.add_argument("--alone", action="store_true", help="Measure Penstock without Apache Kafka and Spark.")
    parser.add_argument(
        "--output",
        type=Path,
        default=DEFAULT_OUTPUT,
        metavar="DIR",
        help=f"The directory for results and plots. Default: {DEFAULT_OUTPUT}.",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="The directory for the brokers' data. Default: below --output.",
    )
    parser.add_help_option()
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: every measurement was taken, whatever the verdicts; 1: one failed; 2: the benchmark cannot run."""
    options = arguments_parser().parse_args(argv)
    try:
        import psutil  # noqa: F401
    except ImportError:
        print(
            "penstock bench needs psutil to read the brokers' CPU and memory: pip install 'penstock[bench]'",
            file=sys.stderr,
        )
        return EXIT_USAGE
    # SIGTERM must stop the brokers too, as ctrl-C does.
    handler_before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(options)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, handler_before)


def _run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from penstock.bench import catalogue, machine, runner
    from penstock.bench.progress import ConsoleProgress
    from penstock.bench.results import Results
    from penstock.bench.sizes import FULL, QUICK

    errors = Console(stderr=True)
    output: Path = options.output
    data_parent = (options.data_dir or output / "data").absolute()
    for directory in (output, data_parent):
        directory.mkdir(parents=True, exist_ok=True)
    machine.raise_open_file_limit()

    sizes = QUICK if options.quick else FULL
    free_bytes = shutil.disk_usage(data_parent).free
    names, absent_notes = _possible(_requested(options.only))
    plan = catalogue.plan(names, sizes, free_bytes)
    matches = _matches(plan.measurements, options.alone, lambda text: errors.print(text, highlight=False))
    small_plan = {name: build(QUICK) for name, build in catalogue.CATALOGUE.items()}
    results = Results(
        rounds=options.rounds,
        quick=options.quick,
        contestants={each.name: each.title for field, _ in matches for each in reversed(field.contestants)},
        machine=machine.describe(),
        sizes=dataclasses.asdict(plan.sizes),
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        notes=[
            *(note for field, _ in matches for note in _absence_notes(field)),
            *absent_notes,
            *plan.notes,
            *(["quick sizes: the verdicts are not meaningful"] if options.quick else []),
        ],
    )
    interrupted = False
    short_rounds = {} if options.quick else catalogue.SHORT_ROUNDS
    step_count = sum(
        (options.rounds * short_rounds.get(measurement.name, 1) + 1) * len(field.contestants)
        for field, chosen in matches
        for measurement in chosen
    )
    try:
        with ConsoleProgress(errors, step_count) as progress:
            if not options.quick:
                machine.touch_free_memory()
            for field, chosen in matches:
                runner.run(
                    measurements=chosen,
                    warm_up=small_plan.__getitem__,
                    contestants=field.contestants,
                    results=results,
                    data_parent=data_parent,
                    progress=progress,
                    short_rounds=short_rounds,
                )
    except KeyboardInterrupt:
        interrupted = True
        results.notes.append("interrupted: only complete rounds count")
    _report(results, output, options.json)
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if results.failures else EXIT_DONE


def _requested(only: Sequence[str] | None) -> list[str]:
    """The names of the requested measurements, with families expanded."""
    return [name for asked in only or _MEASUREMENT_NAMES for name in _FAMILIES.get(asked, (asked,))]


def _possible(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The measurements whose requirements are installed, and notes about the others."""
    from penstock.bench.spark import tables

    of_tables = [name for name in names if name in ("spark-table", "connect-table")]
    absence = tables.absence() if of_tables else None
    if absence is None:
        return list(names), []
    notes = [f"{name} was not measured: {absence}" for name in of_tables]
    return [name for name in names if name not in of_tables], notes


def _matches(
    measurements: Sequence[Measurement], alone: bool, tell: Callable[[str], None]
) -> list[tuple[Field, list[Measurement]]]:
    """Groups measurements by what they compare: two brokers, or two workers or engines on the same broker."""
    from penstock.bench import peers
    from penstock.bench.catalogue import OF_ENGINES, OF_WORKERS

    matches: list[tuple[Field, list[Measurement]]] = []
    of_brokers = [each for each in measurements if each.name not in OF_ENGINES | OF_WORKERS]
    of_workers = [each for each in measurements if each.name in OF_WORKERS]
    of_engines = [each for each in measurements if each.name in OF_ENGINES]
    if of_brokers:
        if not alone:
            tell("looking for Apache Kafka (Maven fetches its jars at the first run)")
        matches.append((peers.assemble(with_apache_kafka=not alone), of_brokers))
    if of_workers:
        if not alone:
            tell("looking for Kafka Connect (Maven fetches its jars at the first run)")
        matches.append((peers.assemble_workers(with_kafka_connect=not alone), of_workers))
    if of_engines:
        tell("preparing Spark (the first run fetches its connector with Maven and creates a class archive)")
        matches.append((peers.assemble_engines(with_stock_spark=not alone), of_engines))
    return matches


def _absence_notes(field: Field) -> list[str]:
    return [
        f"{name} was not measured, so there are no ratios: {reason}" for name, reason in sorted(field.absences.items())
    ]


def _report(results: Results, output: Path, as_json: bool) -> None:
    from rich.console import Console

    from penstock.bench.plot import draw
    from penstock.bench.table import print_table

    errors = Console(stderr=True)
    results_file = output / "results.json"
    text = json.dumps(results.as_json(), indent=2)
    # Before the plots: the figures took an hour.
    results_file.write_text(text + "\n", encoding="utf-8")
    try:
        pictures = draw(results, output)
    except ImportError:
        pictures = []
        results.notes.append("no plots: matplotlib is not installed")
    if as_json:
        print(text)
    else:
        # Rich assumes 80 columns for a pipe, which would cut the table.
        console = Console() if sys.stdout.isatty() else Console(width=200)
        print_table(results, console)
    for file in (results_file, *pictures):
        errors.print(f"wrote {file}", highlight=False, markup=False)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number
