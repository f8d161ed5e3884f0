"""Everything that Penstock uses of Spark beyond its public Python API.

Python has no way to parse a query without running it, to look at a plan, to reach Hadoop's file systems, or to stop a
query between two batches. All of that goes through the JVM objects behind pyspark (`_jvm`, `_jdf`, `_jsq`), through
texts that Spark shows to people, or through JSON that it writes. These may change with any release of Spark: then this
module changes, `catalyst.py` and `row_expressions.py`, and no other. tests/pipeline/test_spark_internals.py has a test
for each assumption.

Owns the use of those objects and texts. It must not know pipelines.

Invariant: no other module than this one and `catalyst.py` touches a private attribute of pyspark or imports py4j; no
JVM object leaves the three.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.pipeline.spark.catalyst import analyzed, jvm, parsed, sequence

if TYPE_CHECKING:
    from pyspark import TaskContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Sessions


def connect_gateway(port: int, secret: str) -> None:
    """Makes pyspark use a JVM that already runs, in place of one that it would start."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(variables)
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in variables:
            del os.environ[name]
    SparkContext._ensure_initialized(gateway=gateway)


def forget_gateway() -> None:
    """After the JVM has ended: pyspark forgets its context and its gateway, so that another JVM can follow."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext._active_spark_context
    if context is not None and context._accumulatorServer is not None:
        context._accumulatorServer.shutdown()
        context._accumulatorServer.server_close()
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        with contextlib.suppress(OSError):
            gateway.shutdown()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def activate(session: SparkSession) -> None:
    """Makes it the active session of this thread: that is where Spark looks for the data source of a writer."""
    jvm(session).org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def write_no_checksum_files(session: SparkSession) -> None:
    """Hadoop keeps a checksum beside each file of a local disk, and starts a process to set its permissions."""
    context: Any = session._jsc
    jvm(session).org.apache.hadoop.fs.FileSystem.getLocal(context.hadoopConfiguration()).setWriteChecksum(False)


def accept_end_of_accumulator_updates(session: SparkSession) -> None:
    """pyspark's server of accumulator updates prints a traceback when Spark stops and closes the connection."""
    server: Any = session.sparkContext._accumulatorServer
    report = server.handle_error

    def handle_error(request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), EOFError):
            report(request, client_address)

    server.handle_error = handle_error


_appending: Final[dict[str, Callable[[str], Exception]]] = {}


def append_in_default_mode(format_name: str, refused: Callable[[str], Exception]) -> None:
    """Lets `df.write.format(format_name).save()` append without `mode("append")`, from now on and in this process.

    Spark refuses its own default mode, errorifexists, for every data source that is written in Python, before it asks
    the data source; its Kafka sink is of an older kind, which may accept it. `refused` is the error for a mode that
    means something else.
    """
    from pyspark.sql.readwriter import DataFrameWriter

    is_patched = bool(_appending)
    _appending[format_name] = refused
    if is_patched:
        return
    own_format, own_mode, own_save = DataFrameWriter.format, DataFrameWriter.mode, DataFrameWriter.save

    def remember_format(writer: DataFrameWriter, source: str) -> DataFrameWriter:
        writer.__dict__["penstock_format"] = source
        return own_format(writer, source)

    def remember_mode(writer: DataFrameWriter, mode: str | None) -> DataFrameWriter:
        if mode:
            writer.__dict__["penstock_mode"] = mode
        return own_mode(writer, mode)

    def save(
        writer: DataFrameWriter,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        *arguments: Any,
        **options: Any,
    ) -> None:
        error = _appending.get(format or writer.__dict__.get("penstock_format", ""))
        if error is not None:
            chosen = str(mode or writer.__dict__.get("penstock_mode", "default")).lower()
            if chosen not in ("append", "default", "error", "errorifexists"):
                raise error(chosen)
            mode = "append"
        own_save(writer, path, format, mode, *arguments, **options)

    patched: Any = DataFrameWriter
    patched.format, patched.mode, patched.save = remember_format, remember_mode, save


# Queries before they run


@dataclass(frozen=True, slots=True)
class SimpleQuery:
    """`SELECT expressions FROM relation WHERE condition`. An expression of None is a star."""

    relation: str
    expressions: Sequence[str | None]
    condition: str | None


def is_query(session: SparkSession, sql: str) -> bool:
    """False for a statement that would change something. Raises PySparkException if the SQL does not parse.

    It parses only: `session.sql` would execute a statement.
    """
    is_instance = jvm(session).py4j.reflection.TypeUtil.isInstanceOf

    def is_command(plan: Any) -> bool:
        kinds = ("Command", "ParsedStatement")
        if any(is_instance(f"org.apache.spark.sql.catalyst.plans.logical.{kind}", plan) for kind in kinds):
            return True
        return any(map(is_command, sequence(plan.children())))

    return not is_command(parsed(session, sql))


def simple_query(session: SparkSession, sql: str) -> SimpleQuery | None:
    """None for any other query. Raises PySparkException if the SQL does not parse."""
    plan = parsed(session, sql)
    if plan.nodeName() != "Project":
        return None
    condition, below = None, plan.child()
    if below.nodeName() == "Filter":
        condition, below = str(below.condition().sql()), below.child()
    if below.nodeName() != "UnresolvedRelation":
        return None
    expressions = [_expression(listed) for listed in sequence(plan.projectList())]
    return SimpleQuery(str(below.name()).replace("`", ""), expressions, condition)


def _expression(listed: Any) -> str | None:
    kind = listed.getClass().getSimpleName()
    if kind == "UnresolvedStar":
        return None
    return str(listed.child().sql() if kind in ("Alias", "UnresolvedAlias") else listed.sql())


def operators(frame: DataFrame) -> list[str] | None:
    """The names of the operators above the source, outermost first; None if there is more than one source."""
    node = analyzed(frame)
    names = []
    while node.children().length() == 1:
        names.append(str(node.nodeName()))
        node = node.children().apply(0)
    return names if node.children().length() == 0 else None


def calls_python(frame: DataFrame) -> bool:
    """Whether a Python function is called for its rows. Spark calls it for all, whatever condition stands before it."""

    def is_python(expression: Any) -> bool:
        return "Python" in str(expression.getClass().getSimpleName()) or any(
            map(is_python, sequence(expression.children()))
        )

    def look(node: Any) -> bool:
        return any(map(is_python, sequence(node.expressions()))) or any(map(look, sequence(node.children())))

    return look(analyzed(frame))


def is_deterministic(frame: DataFrame, expression: str) -> bool:
    """Whether an expression over the frame's columns says the same of a row whenever it is evaluated."""
    return bool(analyzed(frame.selectExpr(expression)).projectList().apply(0).deterministic())


def referenced_columns(frame: DataFrame, expression: str) -> list[str]:
    """The columns of the frame that an expression uses, in the frame's order."""
    used = analyzed(frame.selectExpr(expression)).projectList().apply(0).references()
    return [str(column.name()) for column in sequence(analyzed(frame).output()) if used.contains(column)]


def require_output_mode(frame: DataFrame, mode: str) -> None:
    """Raises AnalysisException, as a start would, if a query of this frame cannot run in the output mode."""
    sql = jvm(frame.sparkSession).org.apache.spark.sql
    java_mode = getattr(sql.streaming.OutputMode, mode.capitalize())()
    sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(analyzed(frame), java_mode)


_WATERMARK: Final = "spark.watermarkDelayMs"

UnboundedState = Literal["join", "aggregation", "deduplication"]


def unbounded_state(frame: DataFrame) -> list[UnboundedState]:
    """The operators of a streaming query whose state no watermark bounds.

    Of aggregations only those by time: one by other keys grows with their number, which may well be bounded.
    """
    found: list[UnboundedState] = []

    def look(node: Any) -> None:
        children = sequence(node.children())
        if children and all(child.isStreaming() for child in children):
            kind = str(node.nodeName())
            if kind == "Join" and not _is_join_bounded(node):
                found.append("join")
            elif kind == "Deduplicate" and not any(map(_has_watermark, sequence(node.keys()))):
                found.append("deduplication")
            elif kind == "Aggregate" and _grows_with_time(sequence(node.groupingExpressions())):
                found.append("aggregation")
            elif kind == "Distinct" and _grows_with_time(sequence(node.output())):
                found.append("aggregation")  # Spark makes one of it
        for child in children:
            look(child)

    look(analyzed(frame))
    return found


def _has_watermark(named: Any) -> bool:
    return bool(named.metadata().contains(_WATERMARK))


def _is_join_bounded(join: Any) -> bool:
    """Both sides have a watermark, and the condition compares event times."""
    sides = (join.left(), join.right())
    if not all(any(map(_has_watermark, sequence(side.output()))) for side in sides) or join.condition().isEmpty():
        return False
    used = join.condition().get().references()
    return any(_has_watermark(column) and used.contains(column) for side in sides for column in sequence(side.output()))


def _grows_with_time(grouping: list[Any]) -> bool:
    columns = [column for column in grouping if column.getClass().getSimpleName() == "AttributeReference"]
    times = [column for column in columns if _is_time(column)]
    return bool(times) and not any(map(_has_watermark, times))


def _is_time(column: Any) -> bool:
    """A timestamp, or a window."""
    return str(column.dataType().simpleString()) in ("timestamp", "struct<start:timestamp,end:timestamp>")


def streams(frame: DataFrame) -> list[str]:
    """The topics or paths of a query's streams, in the order of its plan, by which Spark keeps their offsets."""
    found: dict[str, None] = {}
    for leaf in sequence(analyzed(frame).collectLeaves()):
        # The plan of a common table expression is there besides the references to it.
        if not leaf.isStreaming() or leaf.getClass().getSimpleName() == "CTERelationRef":
            continue
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            options = leaf.extraOptions()
            found[str(options.get("subscribe") or options.get("subscribePattern"))] = None
        else:
            found[str(leaf.dataSource().options().get("path").get())] = None
    return list(found)


# Queries that run

# The status message of a query begins with one of these while no batch is running.
_BETWEEN_BATCHES: Final = ("Getting offsets from", "Waiting for", "No new data", "Initializing", "Stopped")


@dataclass(frozen=True, slots=True)
class ReportedBatch:
    """Spark's progress report of one trigger. `offsets` are each source's end and latest offset, as Spark has them."""

    batch_id: int
    timestamp: str
    input_rows: int
    duration_ms: int
    is_executed: bool  # False: the report came while there was nothing to do
    offsets: Sequence[tuple[Any, Any]]
    metrics: Mapping[str, Any]
    watermark: str | None
    output_rows: int | None = None  # Spark does not know it for every sink


def read_progress(text: str) -> ReportedBatch:
    """From the JSON of a StreamingQueryProgress."""
    progress = json.loads(text)
    durations = progress.get("durationMs") or {}
    return ReportedBatch(
        batch_id=int(progress["batchId"]),
        timestamp=str(progress["timestamp"]),
        input_rows=int(progress["numInputRows"]),
        duration_ms=int(progress.get("batchDuration") or durations.get("triggerExecution", 0)),
        is_executed="addBatch" in durations,
        offsets=[(source.get("endOffset"), source.get("latestOffset")) for source in progress["sources"]],
        metrics=progress.get("observedMetrics") or {},
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        output_rows=_output_rows(progress.get("sink") or {}),
    )


def _output_rows(sink: Mapping[str, Any]) -> int | None:
    """Spark has -1 for a sink that does not say."""
    rows = int(sink.get("numOutputRows", -1))
    return rows if rows >= 0 else None


def new_progress(query: StreamingQuery, last_batch_id: int) -> list[ReportedBatch]:
    """Reports since the batch. Spark keeps the last hundred; most often only one is new, and only that is fetched."""
    query_in_jvm: Any = query._jsq
    last = query_in_jvm.lastProgress()
    if last is None or last.batchId() <= last_batch_id:
        return []
    reports = [last] if last.batchId() == last_batch_id + 1 else query_in_jvm.recentProgress()
    return [read_progress(str(report.json())) for report in reports]


def await_termination(query: StreamingQuery, timeout_s: float) -> bool:
    """Whether the query ended within the time. Raises StreamingQueryException if it failed.

    pyspark's own method takes whole seconds.
    """
    query_in_jvm: Any = query._jsq
    return bool(query_in_jvm.awaitTermination(int(timeout_s * 1000)))


def is_between_batches(query: StreamingQuery) -> bool:
    """Whether `stop` would interrupt no batch."""
    status = query.status
    return not status["isTriggerActive"] or str(status["message"]).startswith(_BETWEEN_BATCHES)


@dataclass(frozen=True, slots=True)
class RunningTasks:
    """The tasks of the jobs that run for a query at this moment. `has_executors`: something could run them."""

    tasks: int
    done: int
    active: int
    has_executors: bool = True


def running_tasks(query: StreamingQuery) -> RunningTasks | None:
    """None if no job runs. Spark names the jobs of a query by the query's run id."""
    from pyspark import SparkContext

    context = SparkContext.getOrCreate()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId))]
    running = [job for job in jobs if job is not None and job.status == "RUNNING"]
    if not running:
        return None
    found = [tracker.getStageInfo(stage) for job in running for stage in job.stageIds]
    stages = [stage for stage in found if stage is not None]
    return RunningTasks(
        tasks=sum(stage.numTasks for stage in stages),
        done=sum(stage.numCompletedTasks for stage in stages),
        active=sum(stage.numActiveTasks for stage in stages),
        # The driver is listed among them, and on one machine it is the only one.
        has_executors=(context.master or "").startswith("local") or len(tracker.getExecutorInfos()) > 1,
    )


def streaming_batch(context: TaskContext) -> tuple[str, int] | None:
    """The query id and the batch id of a task; None outside a streaming query."""
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    return None if query_id is None or batch_id is None else (query_id, int(batch_id))


# Failures


def is_jvm_lost(failure: BaseException) -> bool:
    """Whether a call failed because the JVM has ended."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    return isinstance(failure, Py4JNetworkError | ConnectionError)


def java_messages(failure: BaseException) -> list[str]:
    """What the Java exceptions behind a pyspark exception say, outermost first."""
    messages: list[str] = []
    cause: Any = getattr(failure, "_origin", None)
    while cause is not None and len(messages) < _CAUSES_MAX:
        messages.append(str(cause.toString()))
        cause = cause.getCause()
    return messages


_CAUSES_MAX: Final = 10


# Files, wherever Hadoop finds them


class FileSystemFailure(Exception):
    """A file cannot be written. The text is Java's."""


def is_from_java(failure: BaseException) -> bool:
    """Whether something in Spark or below it has failed, and not Python code around it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return isinstance(failure, Py4JJavaError | PySparkException)


class HadoopDirectory:
    """A directory on any file system that Spark can reach; `location` is a path or URL as Spark takes it.

    Names are relative to it. A file is replaced atomically: readers see the old content or the new.
    """

    def __init__(self, session: SparkSession, location: str) -> None:
        self._session = session
        self.location = location

    def exists(self, name: str) -> bool:
        path = self._path(name)
        return bool(self._file_system(path).exists(path))

    def is_file(self) -> bool:
        """Whether the location is a file, and so no directory."""
        path = self._path("")
        files = self._file_system(path)
        return bool(files.exists(path) and files.getFileStatus(path).isFile())

    def list_names(self, name: str) -> list[str]:
        """The names in a directory, which may be "" for this one; none if it does not exist."""
        path = self._path(name)
        files = self._file_system(path)
        if not files.exists(path):
            return []
        return [str(status.getPath().getName()) for status in files.listStatus(path)]

    def read_text(self, name: str) -> str | None:
        """None if there is no such file."""
        path = self._path(name)
        files = self._file_system(path)
        if not files.exists(path):
            return None
        opened = files.open(path)
        try:
            return str(jvm(self._session).org.apache.commons.io.IOUtils.toString(opened, "UTF-8"))
        finally:
            opened.close()

    def write_text(self, name: str, text: str) -> None:
        """Raises FileSystemFailure."""
        from py4j.protocol import Py4JJavaError

        directory, _, own_name = name.rpartition("/")
        path, waiting = self._path(name), self._path(f"{directory}/.{own_name}.new")
        files = self._file_system(path)
        hadoop = jvm(self._session).org.apache.hadoop.fs
        gateway: Any = self._session.sparkContext._gateway
        try:
            opened = files.create(waiting, True)
            try:
                opened.write(bytearray(text.encode()))
                opened.hsync()
            finally:
                opened.close()
            context = hadoop.FileContext.getFileContext(path.toUri(), self._configuration())
            options = gateway.new_array(hadoop.Options.Rename, 1)
            options[0] = hadoop.Options.Rename.OVERWRITE
            context.rename(waiting, path, options)
        except Py4JJavaError as failure:
            raise FileSystemFailure(str(failure.java_exception)) from None

    def delete_file(self, name: str) -> None:
        """Does nothing if there is no such file."""
        path = self._path(name)
        self._file_system(path).delete(path, False)

    def _configuration(self) -> Any:
        java_session: Any = self._session._jsparkSession
        return java_session.sessionState().newHadoopConf()

    def _path(self, name: str) -> Any:
        return jvm(self._session).org.apache.hadoop.fs.Path(f"{self.location}/{name}" if name else self.location)

    def _file_system(self, path: Any) -> Any:
        return path.getFileSystem(self._configuration())


MANIFEST: Final = "_spark_metadata"
"""The directory in which Spark's file sink lists the files of each batch."""

_FORMAT_CLASSES: Final = {
    "parquet": "parquet.ParquetFileFormat",
    "json": "json.JsonFileFormat",
    "csv": "csv.CSVFileFormat",
}


def file_stream_writer(
    session: SparkSession, format_name: str, path: str, partition_by: Sequence[str], options: Mapping[str, str]
) -> Callable[[DataFrame, int], None]:
    """Spark's streaming file sink as a function of a micro-batch and its id. It skips a batch that MANIFEST lists."""
    java = jvm(session)
    file_format: Any = java.org.apache.spark.sql.execution.datasources
    for part in _FORMAT_CLASSES[format_name].split("."):
        file_format = getattr(file_format, part)
    sink = java.org.apache.spark.sql.execution.streaming.sinks.FileStreamSink(
        session._jsparkSession,
        path,
        file_format(),
        java.PythonUtils.toSeq(list(partition_by)),
        java.PythonUtils.toScalaMap({**options, "path": path}),
    )

    def write(rows: DataFrame, batch_id: int) -> None:
        sink.addBatch(batch_id, rows._jdf)

    return write
