"""Many seeds of the simulated cluster, in several processes.

    python -m tests.simulation.soak --first 0 --seeds 1000
    python -m tests.simulation.soak --first 4711 --seeds 1 --trace

Each seed is a run of its own (`cluster/run.py`) and gives the same run every time, on every machine with the same
Python. A seed that fails is printed with what it found and how to repeat it; `--trace` prints everything that happened.
Ends with 1 if one failed.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.simulation.cluster.run import Run, quiet, run_seed, silence
from tests.simulation.cluster.world import SimulationFault

FAILURES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """`failure` is empty for a seed that passed."""

    seed: int
    failure: str
    digest: int = 0
    events: int = 0
    virtual_s: float = 0.0
    acknowledged: int = 0


def outcome_of(seed: int) -> Outcome:
    try:
        result = run_seed(seed)
    except SimulationFault as error:
        return Outcome(seed, str(error))
    return Outcome(seed, "", result.digest, result.events, result.virtual_s, result.acknowledged)


def outcomes(seeds: range, processes: int) -> Iterator[Outcome]:
    """In the order of the seeds."""
    if processes == 1:
        prepare()
        yield from map(outcome_of, seeds)
        return
    with ProcessPoolExecutor(processes, initializer=prepare) as pool:
        yield from pool.map(outcome_of, seeds, chunksize=5)


def prepare() -> None:
    """What is loaded now stays: each run's garbage is collected behind it, and walks over nothing else."""
    silence()
    gc.freeze()


def trace(seed: int) -> int:
    run = Run(seed, keeps_trace=True)
    try:
        with quiet():
            print(run.run())
        failed = 0
    except SimulationFault:
        failed = 1
    finally:
        print("\n".join(run.world.trace or ()))
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.soak")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trace", action="store_true", help="print what happened, seed by seed")
    parser.add_argument(
        "--fresh", type=int, default=0, help="the first of further seeds, which no earlier run has tried"
    )
    parser.add_argument("--fresh-seeds", type=int, default=0, help="how many of those")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.trace:
        return max(map(trace, seeds))
    failed = run_all(seeds, arguments.processes)
    if arguments.fresh_seeds:
        failed += run_all(range(arguments.fresh, arguments.fresh + arguments.fresh_seeds), arguments.processes)
    return 1 if failed else 0


def run_all(seeds: range, processes: int) -> int:
    """Prints what failed, and a summary. Returns the number of seeds that failed."""
    began_s = time.monotonic()
    failed, events, virtual_s, acknowledged, digest = 0, 0, 0.0, 0, 0
    for outcome in outcomes(seeds, processes):
        if outcome.failure:
            failed += 1
            if failed <= FAILURES_SHOWN_MAX:
                arguments = f"--first {outcome.seed} --seeds 1 --trace"
                print(f"{outcome.failure}\n  repeat it: make simulation SIMULATION_ARGS='{arguments}'", flush=True)
        events += outcome.events
        virtual_s += outcome.virtual_s
        acknowledged += outcome.acknowledged
        digest ^= outcome.digest
    print(
        f"seeds {seeds.start} to {seeds.stop - 1}: {failed} failed; {acknowledged} records acknowledged, {events} "
        f"events in {virtual_s / 3600:.1f} hours of virtual time; {time.monotonic() - began_s:.0f} s; "
        f"digest {digest:08x}",
        flush=True,
    )
    return failed


if __name__ == "__main__":
    sys.exit(main())
