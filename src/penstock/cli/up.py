"""`penstock up`: a broker and an engine for pipelines, as one process tree.

Owns their order: the broker first, then Spark, then the socket that `penstock run` looks for; and the reverse at the
end, so that pipelines finish their batches while the broker is still there.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.command_error import CommandError
from penstock.cli.options import AsJson, examples, parse_assignments
from penstock.core.addresses import DEFAULT_DATA_DIR, DEFAULT_PORT
from penstock.core.exit_codes import ExitCode

if TYPE_CHECKING:
    from penstock.client.local_broker.process import BrokerProcess

EPILOG: Final = examples(
    "penstock up                                     then, beside it: penstock run revenue.yaml",
    "penstock up --listen 127.0.0.1:19092 --set num.partitions=4",
)
_BROKER_CHECK_S: Final = 1.0
_REQUIREMENT: Final = "penstock up hosts pipelines, which need Spark: pip install 'penstock[spark]'"


def up(
    *,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where the broker listens.")
    ] = f"127.0.0.1:{DEFAULT_PORT}",
    data_dir: Annotated[Path, typer.Option("--data-dir", metavar="DIR", help="Where everything is kept.")] = (
        DEFAULT_DATA_DIR
    ),
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A broker setting; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a broker and an engine that hosts pipelines, until ctrl-C."""
    from penstock.client.local_broker.process import BrokerProcess, WithParent

    stop = threading.Event()
    before = {number: signal.signal(number, _asking(stop)) for number in (signal.SIGINT, signal.SIGTERM)}
    data_dir.mkdir(parents=True, exist_ok=True)
    broker = BrokerProcess.start(
        data_dir, listen=listen, settings=dict(parse_assignments(settings or (), "--set")), lifetime=WithParent()
    )
    try:
        _say(f"broker on {broker.bootstrap_servers}", as_json, {"event": "broker", "address": broker.bootstrap_servers})
        _serve(data_dir, broker, stop, as_json)
    finally:
        broker.terminate()
        for number, handler in before.items():
            signal.signal(number, handler)


def _asking(stop: threading.Event) -> Callable[[int, FrameType | None], None]:
    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    return ask


def _serve(data_dir: Path, broker: BrokerProcess, stop: threading.Event, as_json: bool) -> None:
    try:
        from penstock.pipeline.engine.hosting import host
        from penstock.pipeline.engine.server import Engine, EngineInUse
        from penstock.pipeline.spark.java import JavaMissingError
        from penstock.pipeline.spark.jvm import JvmError
        from penstock.pipeline.spark.session import SparkSettings, end_jvm, start
    except ModuleNotFoundError as missing:
        raise CommandError(_REQUIREMENT, ExitCode.MISSING_REQUIREMENT) from missing
    try:
        spark = start(SparkSettings(name="penstock up", log_level="OFF", functions=False))
    except (JavaMissingError, JvmError) as missing:
        raise CommandError(str(missing), ExitCode.MISSING_REQUIREMENT) from missing
    try:
        try:
            engine = Engine(data_dir, host(spark))
        except EngineInUse as used:
            raise CommandError(str(used), ExitCode.DATA_DIR_IN_USE) from used
        serving = threading.Thread(target=engine.serve, name="engine", daemon=True)
        serving.start()
        _say("engine ready; `penstock run FILE` uses it; ctrl-C stops", as_json, {"event": "ready"})
        while not stop.wait(_BROKER_CHECK_S):
            if not broker.is_running():
                break
        engine.close()
        serving.join()
        if not stop.is_set():
            raise CommandError("the broker has ended, and so has all that needs it", ExitCode.FAILURE)
    finally:
        spark.stop()
        end_jvm()


def _say(text: str, as_json: bool, event: dict[str, str]) -> None:
    if as_json:
        import json

        print(json.dumps(event), flush=True)
    else:
        print(f"penstock: {text}", file=sys.stderr, flush=True)
