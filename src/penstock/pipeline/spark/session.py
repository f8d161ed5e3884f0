"""Starts Spark: on this machine with settings chosen for one machine, or on a running cluster.

Owns the settings, each with its reason, and the order of a start: the zygote of the Python workers and the JVM first,
so that both work while this process imports pyspark. It must never know pipelines.

Invariant: what a caller sets in `conf` wins over every choice made here.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.pipeline.spark import internals, java_archive
from penstock.pipeline.spark.java import JavaRuntime, find_java
from penstock.pipeline.spark.jvm import Gateway, Jvm, JvmError, jvm_options, pyspark_home
from penstock.pipeline.spark.worker_zygote import SOCKET_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ATTEMPTS: Final = 4  # as on a cluster; plain local[N] gives up at a task's first failure
_TOPICS: Final = "penstock"  # the data source, as `pyspark_penstock` names it
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_MEMORY_MB_LEAST: Final = 1024
_MEMORY_MB_MOST: Final = 4096
_JVM_HEAD_START_S: Final = 5
_JVM_LAST_MOMENT_S: Final = 2
_JVM_EXIT_TIMEOUT_S: Final = 600  # one that writes a class archive takes minutes on a busy machine


class UnsupportedSaveMode(PenstockError):
    """A DataFrame cannot be written to topics in this save mode."""

    condition = "PENSTOCK_INVALID_OPTION"

    def __init__(self, mode: str) -> None:
        super().__init__(mode)

    def __str__(self) -> str:
        return (
            f"Save mode {self.args[0]} not allowed for topics: records are only ever added; use append, or"
            " errorifexists, which is Spark's default"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How Spark is started. Everything but the name has a default that suits one machine."""

    name: str
    master: str | None = None  # None: this machine, all cores
    ui: bool = False  # Spark's own web pages
    driver_memory: str | None = None  # None: a quarter of the machine's, 1 to 4 GB
    log_level: str = "ERROR"
    log_file: Path | None = None  # None: standard error
    functions: bool = True  # code of the user's runs in it: pandas is at hand, and MLlib's functions are known
    tables: bool = True  # rows go to databases: their drivers are at hand
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        return self.master is None or self.master == "local" or self.master.startswith("local[")


def start_session(name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session with the defaults of SparkSettings."""
    return start(SparkSettings(name=name, master=master, conf=conf or {}))


def launch(settings: SparkSettings) -> None:
    """Starts what a session on this machine needs, and returns at once: `start` with the same settings goes on from
    there. Raises JavaMissingError."""
    if settings.is_local and _running is None:
        _launch(settings)


def start(settings: SparkSettings) -> SparkSession:
    """Raises JavaMissingError or JvmError, each with one line for a person."""
    session = _start_local(settings) if settings.is_local else _start_on_cluster(settings)
    internals.append_in_default_mode(_TOPICS, UnsupportedSaveMode)
    return session


def is_on_one_machine(session: SparkSession) -> bool:
    # "local-cluster" starts workers as processes of their own, on the same machine.
    return (session.sparkContext.master or "").startswith("local")


def local_conf(settings: SparkSettings) -> dict[str, str]:
    """Spark's settings for a session on this machine."""
    cores = os.cpu_count() or 1
    return {
        "spark.app.name": settings.name,
        "spark.master": settings.master or f"local[{cores},{TASK_ATTEMPTS}]",
        **_everywhere(settings),
        # Nothing of a session on one machine should be reachable from another, nor depend on how its name resolves.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # One small task per core; the default of 200 makes 200 state stores. A checkpoint remembers its own number.
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        # Python workers talk over unix sockets: an exchange over TCP waits some 40 ms for a delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
        # The default checkpoint files fork a dozen processes for each batch, to set permissions and links.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # Nor does Spark keep checksums of its own, in one more file for each (`_start_local` says why).
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        # The description of a job's tasks is broadcast even to the machine that it is on, by blocks, and one block is
        # allocated whole: 4 MB by default, for some KB in each micro-batch, and a third of all that is ever allocated.
        "spark.broadcast.blockSize": "256k",
        **_extensions(settings),
        **_past_jobs(settings),
        **settings.conf,
    }


def cluster_conf(settings: SparkSettings) -> dict[str, str]:
    """Only what makes sense on machines that are not ours. Executors need penstock installed, as they do anyway."""
    memory = {"spark.driver.memory": settings.driver_memory} if settings.driver_memory else {}
    return {
        "spark.app.name": settings.name,
        **({"spark.master": settings.master} if settings.master else {}),
        **_everywhere(settings),
        # A stage that is run again would write to a transaction what it has written before, and pyspark does not tell
        # tasks that they are a second attempt of their stage. The whole micro-batch is tried again instead.
        "spark.stage.maxConsecutiveAttempts": "1",
        **memory,
        **settings.conf,
    }


def _everywhere(settings: SparkSettings) -> dict[str, str]:
    return {
        # Timestamps mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        # toPandas and createDataFrame in whole columns.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Workers are forked from a process that has imported what they need, and its garbage collector leaves that be.
        "spark.python.daemon.module": "penstock.pipeline.spark.worker_daemon",
        "spark.python.worker.reuse": "true",
        # State outgrows the JVM's heap; a batch then writes its changes and not whole snapshots.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.ui.enabled": "true" if settings.ui else "false",
        # The progress that people see is ours.
        "spark.ui.showConsoleProgress": "false",
    }


def _extensions(settings: SparkSettings) -> dict[str, str]:
    """Spark's jars bring one extension that is found by itself: two functions of MLlib's, for Python programs. To make
    them known starts Scala's reflection, which takes as long as all the rest of a session does."""
    return {} if settings.functions else {"spark.sql.extensions.test.loadFromCp": "false"}


def _past_jobs(settings: SparkSettings) -> dict[str, str]:
    """Spark's web pages show the last thousand of everything, and a stream of small batches spends a twentieth of its
    time on sorting them by age."""
    if settings.ui or settings.conf.get("spark.ui.enabled") == "true":
        return {}
    return {
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
    }


def default_driver_memory() -> str:
    total_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)
    return f"{min(max(total_mb // 4, _MEMORY_MB_LEAST), _MEMORY_MB_MOST)}m"


# py4j has one gateway for a process, so a process has one JVM; sessions may follow each other in it.
_running: _LocalRuntime | None = None


@dataclass(slots=True)
class _LocalRuntime:
    """The processes behind local sessions of this process, and their directory."""

    directory: Path
    zygote: subprocess.Popen[bytes]
    java: JavaRuntime
    jvm: Jvm
    archive: Path
    is_used: bool = False

    def await_gateway(self, settings: SparkSettings) -> Gateway:
        """A JVM that does not start with a class archive is started again without."""
        self.is_used = True
        try:
            return self.jvm.gateway()
        except JvmError:
            if not java_archive.archive_options(self.java, self.archive):
                raise
        java_archive.discard(self.archive)
        self.jvm = _start_jvm(settings, self.java, self.archive, self.directory)
        return self.jvm.gateway()

    def end(self) -> None:
        """At exit of this process: both processes end with the pipes that we hold; the directory is ours to remove.

        The JVM goes first, and is given a moment: it complains about workers that end before it does. The zygote has
        nothing to finish: one that is still importing does not look at its pipe, and need not be waited for.
        """
        global _running  # noqa: PLW0603 (one per process, as py4j's gateway is)
        atexit.unregister(self.end)  # once is enough: the making of an archive takes minutes
        if _running is self:
            _running = None
        if not self.is_used:  # and so has nothing to finish, nor does it look at its pipe yet
            self.jvm.process.kill()
        for process in (self.jvm.process, self.zygote):
            assert process.stdin is not None
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_JVM_HEAD_START_S)
        if self.zygote.poll() is None:
            self.zygote.kill()
            self.zygote.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
        if self.is_used:  # a start that was refused leaves no work behind
            java_archive.make_in_background(self.archive)


def _start_local(settings: SparkSettings) -> SparkSession:
    runtime = _running or _launch(settings)
    if not runtime.is_used:
        _import_pyspark()
        gateway = runtime.await_gateway(settings)
        internals.connect_gateway(gateway.port, gateway.secret)
    from pyspark.sql import SparkSession

    conf = local_conf(settings)
    # In this process's environment, because pyspark takes the interpreter of workers from there and nowhere else.
    os.environ["PYSPARK_PYTHON"] = conf["spark.pyspark.python"] = str(runtime.directory / "python3")
    with _own_interrupt_handler():
        session = SparkSession.builder.config(map={**conf}).getOrCreate()
    internals.accept_end_of_accumulator_updates(session)
    # Checksum files take a quarter of the time of a small micro-batch, for two files of a few hundred bytes. Those are
    # still written whole and renamed, and a torn one does not parse. RocksDB's files carry checksums of their own.
    internals.write_no_checksum_files(session)
    return session


@contextlib.contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """pyspark installs a handler for ctrl-C that cancels all jobs. One that lets batches finish stays in place."""
    before = signal.getsignal(signal.SIGINT)
    yield
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and before not in (None, signal.default_int_handler):
        signal.signal(signal.SIGINT, before)


def _launch(settings: SparkSettings) -> _LocalRuntime:
    global _running  # noqa: PLW0603 (one per process, as py4j's gateway is)
    java = find_java()
    options = jvm_options(java, settings.driver_memory or default_driver_memory())
    archive = java_archive.archive_path(java, options, pyspark_home() / "jars")
    directory = Path(tempfile.mkdtemp(prefix="penstock-spark-"))
    zygote = _start_zygote(directory / "zygote", settings)
    shim = directory / "python3"
    script = Path(__file__).with_name("worker_shim.py")
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(script))} "$@"\n')
    shim.chmod(0o700)
    _running = _LocalRuntime(directory, zygote, java, _start_jvm(settings, java, archive, directory), archive)
    atexit.register(_running.end)
    return _running


def _import_pyspark() -> None:
    """While the JVM starts. Unasked, pyspark imports the second one (and pandas with it) when it first calls the JVM,
    only to learn whether there is numpy."""
    importlib.import_module("pyspark.sql")
    importlib.import_module("pyspark.testing.utils")


def _start_jvm(settings: SparkSettings, java: JavaRuntime, archive: Path, directory: Path) -> Jvm:
    options = jvm_options(java, settings.driver_memory or default_driver_memory())
    own_files = directory / "jvm"
    own_files.mkdir(exist_ok=True)
    conf = local_conf(settings)
    # Last, so that they win; Spark itself reads them in its launcher, which is not used here.
    users = shlex.split(conf.get(_JAVA_OPTIONS, ""))
    return Jvm.start(
        java,
        options=[*options, *java_archive.archive_options(java, archive), *_logging_options(settings), *users],
        conf=conf,
        environment={SOCKET_VARIABLE: str(directory / "zygote"), "PYSPARK_PYTHON": str(directory / "python3")},
        directory=own_files,
    )


def _start_zygote(socket_path: Path, settings: SparkSettings) -> subprocess.Popen[bytes]:
    wanted = {"functions": settings.functions, "tables": settings.tables}
    purposes = [purpose for purpose, is_wanted in wanted.items() if is_wanted]
    return subprocess.Popen(  # noqa: S603 (this interpreter)
        [sys.executable, "-P", "-m", "penstock.pipeline.spark.worker_zygote", str(socket_path), *purposes],
        stdin=subprocess.PIPE,
        # Every worker must hash alike, or rows with one key go to two places; Spark sets the same default.
        env={**os.environ, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")},
        # ctrl-C is for the driver, which then ends its workers in good order.
        start_new_session=True,
    )


def _logging_options(settings: SparkSettings) -> list[str]:
    options = [
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
        f"-Dpenstock.log.level={settings.log_level.lower()}",
    ]
    if settings.log_file is not None:
        path = settings.log_file.absolute()
        options += ["-Dpenstock.log.to=file", f"-Dpenstock.log.file={path}", "-Dpenstock.log.stopping.level=info"]
    return options


def scratch_directory() -> Path | None:
    """Of this process's local sessions: it is removed however the process ends. None while there is no session."""
    return None if _running is None else _running.directory


def is_jvm_running() -> bool:
    """Whether the JVM behind this process's local sessions is alive."""
    return _running is not None and _running.jvm.process.poll() is None


def end_jvm() -> None:
    """Ends the processes behind this process's local sessions and waits. No session can be started afterwards."""
    if _running is None:
        return
    runtime = _running
    runtime.end()
    runtime.jvm.process.wait(_JVM_EXIT_TIMEOUT_S)


def is_usable(session: SparkSession) -> bool:
    """Whether its JVM answers, and its context has not been stopped: by a cluster, or by a fatal error."""
    try:
        return bool(session.sparkContext.defaultParallelism)
    except Exception:  # py4j's and Java's: each means no
        return False


def discard(session: SparkSession) -> None:
    """After a session has become unusable: the next `start` makes another one, with another JVM if its own died."""
    runtime = _running
    if runtime is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):  # a JVM that was killed takes a moment to go
            runtime.jvm.process.wait(_JVM_LAST_MOMENT_S)
        if runtime.jvm.process.poll() is None:
            session.stop()
            return
        atexit.unregister(runtime.end)
        runtime.end()
    internals.forget_gateway()


def _has_own_logging() -> bool:
    """Whether the user's Spark configuration says what the driver logs."""
    homes = [os.environ.get("SPARK_CONF_DIR"), *(f"{home}/conf" for home in [os.environ.get("SPARK_HOME")] if home)]
    return any(Path(home, "log4j2.properties").exists() for home in homes if home)


def _start_on_cluster(settings: SparkSettings) -> SparkSession:
    """With pyspark's own launcher: a cluster's settings live in the SPARK_HOME and SPARK_CONF_DIR that it reads."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "JAVA_HOME" not in os.environ:
        os.environ["JAVA_HOME"] = str(find_java().home)
    from pyspark.sql import SparkSession

    conf = cluster_conf(settings)
    if not _has_own_logging():
        conf.setdefault(_JAVA_OPTIONS, " ".join(_logging_options(settings)))
    with _own_interrupt_handler():
        session = SparkSession.builder.config(map={**conf}).getOrCreate()
    session.sparkContext.setLogLevel(settings.log_level)
    return session
