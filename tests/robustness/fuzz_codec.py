"""Coverage-guided fuzzing of codec, framing and batch validation, in process, with atheris (libFuzzer).

    python -m tests.robustness.fuzz_codec --seconds 25
    python -m tests.robustness.fuzz_codec CRASH-FILE          an input that a failure has left behind

The code under test is instrumented as it is imported, and so are the readers that the codec compiles at run time. It
begins with the corpus of the frame fuzzer. Ends with 0, or with another code and the input in a file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

CORPUS_SEED: Final = 1
REQUESTS_PER_VERSION: Final = 2
BATCHES: Final = 100
INPUT_BYTES_MAX: Final = 4096


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz_codec", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=25)
    parser.add_argument("--corpus", type=Path, help="an empty directory for the inputs; default: a temporary one")
    parser.add_argument("input", nargs="?", type=Path, help="run this one input and nothing else")
    options = parser.parse_args(arguments)
    if options.corpus is None and options.input is None:
        return _run_with_a_corpus(options.seconds)
    try:
        import atheris
    except ImportError:
        print("atheris is not installed (it is for Linux and Python before 3.14): no coverage-guided fuzzing")
        return 0
    with atheris.instrument_imports(include=["penstock"], enable_loader_override=False):
        from tests.robustness import codec_targets
    _instrument_readers()
    command = [sys.argv[0], f"-artifact_prefix={tempfile.gettempdir()}/penstock-fuzz-"]
    if options.input is not None:
        command.append(str(options.input))
    else:
        _write_corpus(options.corpus)
        command += [f"-max_total_time={options.seconds}", f"-max_len={INPUT_BYTES_MAX}", "-verbosity=0"]
        command += ["-print_final_stats=1", str(options.corpus)]
    atheris.Setup(command, codec_targets.everything)
    atheris.Fuzz()  # ends the process
    return 0


def _run_with_a_corpus(seconds: int) -> int:
    """libFuzzer ends its process without tidying up, so it gets one of its own."""
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as corpus:
        command = [sys.executable, "-m", "tests.robustness.fuzz_codec", "--seconds", str(seconds), "--corpus", corpus]
        return subprocess.call(command)


def _instrument_readers() -> None:
    """They are compiled from text when they are first asked for, which no import hook sees."""
    import atheris

    from penstock.broker.router import ROUTES
    from penstock.protocol import codec
    from penstock.protocol.codec import reader, request_class

    for route in ROUTES:
        cls = request_class(route.api_key)
        for version in range(route.min_version, route.max_version + 1):
            codec._readers[cls, version] = atheris.instrument_func(reader(cls, version))


def _write_corpus(directory: Path) -> None:
    from tests.robustness.fuzz_corpus import corpus_of, spoiled_batch

    chance = Random(CORPUS_SEED)
    inputs = [b"\0" + request for request in corpus_of(chance, REQUESTS_PER_VERSION)]
    inputs += [bytes([chance.choice((3, 131))]) + spoiled_batch(chance) for _ in range(BATCHES)]
    for number, content in enumerate(inputs):
        (directory / f"{number:04d}").write_bytes(content[:INPUT_BYTES_MAX])


if __name__ == "__main__":
    sys.exit(main())
