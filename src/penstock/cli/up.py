"""`penstock up [DIRECTORY]`: a broker or a cluster of them, and an engine for pipelines, as one process tree.

Owns their order: the brokers first, then Spark, then the pipelines and the socket for commands; and the reverse at the
end, so that pipelines finish their batches while the broker is still there. What is shown is in `up_view.py`.

Invariant: what should run is on disk (`pipeline/engine/desired_state.py`), so an engine that is killed continues where
it was when it is started again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.connect import REQUIREMENT as CONNECT_REQUIREMENT
from penstock.cli.connect import REST_PORT
from penstock.cli.listen_address import parse_address
from penstock.cli.metrics import Figures
from penstock.cli.options import (
    AsJson,
    LogFormatOption,
    MetricsAddress,
    examples,
    parse_assignments,
    use_log_format,
)
from penstock.cli.signals import stop_on_signals
from penstock.core.addresses import DEFAULT_DATA_DIR, DEFAULT_HOST, DEFAULT_PORT, host_port_text
from penstock.core.exit_codes import ExitCode

if TYPE_CHECKING:
    from penstock.cli.up_cluster import LocalCluster
    from penstock.cli.up_view import UpView
    from penstock.client.local_broker.process import BrokerProcess
    from penstock.pipeline.engine.herder import Herder
    from penstock.pipeline.engine.spark_host import SparkHost

    Brokers = BrokerProcess | LocalCluster

EPILOG: Final = (
    examples(
        "penstock up                                     then, beside it: penstock run revenue.yaml",
        "penstock up pipelines/                          also run every .yaml and .yml file of the directory",
        "penstock up --listen 127.0.0.1:19092 --set num.partitions=4",
        "penstock up --rest 127.0.0.1:8083               also run connectors; penstock connector create FILE.json",
        "penstock up --metrics 127.0.0.1:9404            serve metrics of broker and pipelines for Prometheus",
        "penstock up --brokers 3                         a cluster on 127.0.0.1:9092 to 9094, with an etcd for it",
    )
    + "\n\n\b\nctrl-C lets the pipelines finish their batches and stops everything; a second ctrl-C does not wait.\n"
    "The next `penstock up` continues: `penstock stop NAME` stops a pipeline for good."
)
_CHECK_S: Final = 0.5
_REQUIREMENT: Final = "penstock up hosts pipelines, which need Spark: pip install 'penstock[spark]'"


def up(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIRECTORY]", show_default=False, help="Run every .yaml and .yml file in it."),
    ] = None,
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
    brokers: Annotated[
        int,
        typer.Option("--brokers", min=1, metavar="N", help="Run a cluster of N brokers, and an etcd for it."),
    ] = 1,
    rest: Annotated[
        str | None,
        typer.Option("--rest", metavar="HOST:PORT", help="Also run a Connect worker, with its REST API there."),
    ] = None,
    metrics: MetricsAddress = None,
    log_format: LogFormatOption = "text",
    as_json: AsJson = False,
) -> None:
    """Run a broker and an engine that hosts pipelines, until ctrl-C."""
    use_log_format(log_format)
    rest_address = None if rest is None else parse_address(rest, "--rest", REST_PORT)
    if directory is not None and not directory.is_dir():
        raise usage_error(f"{directory}: no such directory; a single file is run by `penstock run {directory}`")
    from penstock.cli.up_view import UpView

    figures = Figures()
    with stop_on_signals() as stop, UpView.for_command(as_json) as view, figures.served(metrics) as served:
        if served is not None:
            view.metrics_served(served)
        data_dir.mkdir(parents=True, exist_ok=True)
        broker = _start_brokers(
            brokers,
            data_dir,
            listen,
            dict(parse_assignments(settings or (), "--set")),
            None if metrics is None else f"{DEFAULT_HOST}:0",
            view,
        )
        try:
            figures.broker_address = next(iter(_metrics_of(broker).values()), None)
            view.broker_started(broker.bootstrap_servers)
            for number, address in list(_metrics_of(broker).items())[1:]:
                view.broker_metrics_served(number, address)
            _host_pipelines(data_dir, directory, broker, rest_address, stop, view, figures)
        finally:
            broker.terminate()


def _start_brokers(
    count: int, data_dir: Path, listen: str, settings: dict[str, str], metrics: str | None, view: UpView
) -> Brokers:
    from penstock.cli.up_cluster import LocalCluster, check_directory
    from penstock.client.local_broker.process import BrokerProcess, WithParent

    check_directory(data_dir, count)
    if count == 1:
        return BrokerProcess.start(data_dir, listen=listen, settings=settings, lifetime=WithParent(), metrics=metrics)
    address = parse_address(listen, "--listen")
    return LocalCluster.start(data_dir, count, listen=address, settings=settings, metrics=metrics, say=view.tell_line)


def _metrics_of(brokers: Brokers) -> dict[int, str]:
    """Where brokers serve their metrics, by number."""
    if isinstance(brokers.metrics, dict):
        return brokers.metrics
    return {} if brokers.metrics is None else {1: brokers.metrics}


def _are_running(brokers: Brokers) -> bool:
    from penstock.cli.up_cluster import LocalCluster

    return brokers.tend() if isinstance(brokers, LocalCluster) else brokers.is_running()


def _host_pipelines(
    data_dir: Path,
    directory: Path | None,
    broker: Brokers,
    rest: tuple[str, int] | None,
    stop: threading.Event,
    view: UpView,
    figures: Figures,
) -> None:
    try:
        from penstock.pipeline.engine.desired_state import DesiredStates
        from penstock.pipeline.engine.herder import Herder
        from penstock.pipeline.engine.layout import EngineInUse, EngineLock, desired_states_dir, logs_dir
        from penstock.pipeline.engine.packing import calls_functions
        from penstock.pipeline.engine.pipeline_directory import load_file, pipelines_in
        from penstock.pipeline.engine.process_host import HostByKind, ProcessHost
        from penstock.pipeline.engine.server import EngineServer
    except ModuleNotFoundError as missing:
        raise CommandError(_REQUIREMENT, ExitCode.MISSING_REQUIREMENT) from missing
    try:
        lock = EngineLock(data_dir)
    except EngineInUse as used:
        raise CommandError(str(used), ExitCode.DATA_DIR_IN_USE) from used
    working_dir = Path.cwd()
    with lock, _spark_host() as spark_host:
        host = HostByKind(spark_host, ProcessHost(), lambda work: calls_functions(work.spec))
        herder = Herder(
            host,
            DesiredStates(desired_states_dir(data_dir)),
            logs_dir(data_dir),
            lambda file, of: load_file(Path(file), Path(of), {}, working_dir),
            on_event=figures.apply,
        )
        figures.statuses = herder.statuses
        if directory is not None:
            found = pipelines_in(directory, {}, working_dir)
            herder.adopt_directory(str(directory.resolve()), found)
        herder.start_desired()
        server = EngineServer(data_dir, herder, host)
        serving = threading.Thread(target=server.serve, name="engine", daemon=True)
        serving.start()
        with _connect_worker(rest, broker, spark_host, herder) as url:
            if url is not None:
                view.rest_served(url)
            view.ready(herder.statuses)
            reason = _watch(herder, broker, stop, view)
            view.stopping(herder.statuses())
        herder.close()
        server.close()
        serving.join()
        view.show(herder.statuses())
        if reason is not None:
            raise reason


@contextlib.contextmanager
def _connect_worker(
    rest: tuple[str, int] | None, broker: Brokers, spark_host: SparkHost, herder: Herder
) -> Iterator[str | None]:
    """A Connect worker on the same broker and the same Spark; yields the URL of its REST API."""
    if rest is None:
        yield None
        return
    try:
        from penstock.connect.config.definition import ConfigException
        from penstock.connect.connector import ConnectError
        from penstock.connect.engine_pipelines import EnginePipelines
        from penstock.connect.runtime.spark_jobs import SparkJobs
        from penstock.connect.worker import DEFAULTS, Worker
    except ModuleNotFoundError as missing:
        raise CommandError(CONNECT_REQUIREMENT, ExitCode.MISSING_REQUIREMENT) from missing
    properties = {
        **DEFAULTS,
        "bootstrap.servers": broker.bootstrap_servers,
        "listeners": f"http://{host_port_text(*rest)}",
    }
    worker = Worker(properties, SparkJobs(lambda: spark_host.spark), pipelines=EnginePipelines(herder))
    try:
        worker.start()
    except (ConfigException, ConnectError) as mistake:
        raise CommandError(f"--rest: {mistake}", ExitCode.CANNOT_LISTEN) from mistake
    try:
        yield worker.url
    finally:
        worker.stop()


def _watch(herder: Herder, broker: Brokers, stop: threading.Event, view: UpView) -> CommandError | None:
    """Returns when it is time to stop; with a failure if nobody asked for it."""
    from penstock.pipeline.spark.session import is_jvm_running

    while not stop.wait(_CHECK_S):
        view.show(herder.statuses())
        if not _are_running(broker):
            return CommandError("the broker has ended, and so has all that needs it", ExitCode.FAILURE)
        if not is_jvm_running():
            return CommandError(
                "Spark has ended; start `penstock up` again, its pipelines resume from their last commit",
                ExitCode.ENGINE_LOST,
            )
    return None


@contextlib.contextmanager
def _spark_host() -> Iterator[SparkHost]:
    from penstock.pipeline.engine.spark_host import SparkHost
    from penstock.pipeline.spark.java import JavaMissingError
    from penstock.pipeline.spark.jvm import JvmError
    from penstock.pipeline.spark.session import SparkSettings, end_jvm, is_jvm_running, start

    try:
        spark = start(SparkSettings(name="penstock up", log_level="OFF", functions=False))
    except (JavaMissingError, JvmError) as missing:
        raise CommandError(str(missing), ExitCode.MISSING_REQUIREMENT) from missing
    try:
        yield SparkHost(spark)
    finally:
        if is_jvm_running():
            spark.stop()
        end_jvm()
