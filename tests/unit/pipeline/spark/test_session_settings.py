"""The settings of a session and the command line of its JVM, without starting either."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.pipeline.spark import java_archive, session
from penstock.pipeline.spark.java import JavaRuntime
from penstock.pipeline.spark.jvm import Gateway, class_path, jvm_options
from penstock.pipeline.spark.session import SparkSettings, cluster_conf, local_conf

JAVA_17 = JavaRuntime(Path("/java17"), 17)
JAVA_25 = JavaRuntime(Path("/java25"), 25)


def test_this_machine_is_the_default_and_retries_tasks() -> None:
    assert local_conf(SparkSettings(name="p"))["spark.master"] == f"local[{os.cpu_count()},4]"


def test_what_the_caller_sets_wins() -> None:
    settings = SparkSettings(name="p", conf={"spark.sql.shuffle.partitions": "7", "spark.ui.enabled": "true"})
    conf = local_conf(settings)
    assert (conf["spark.sql.shuffle.partitions"], conf["spark.ui.enabled"]) == ("7", "true")
    assert cluster_conf(settings)["spark.ui.enabled"] == "true"


def test_a_session_for_sql_alone_skips_what_only_programs_use() -> None:
    skipped = "spark.sql.extensions.test.loadFromCp"
    assert skipped not in local_conf(SparkSettings(name="p"))
    assert local_conf(SparkSettings(name="p", functions=False))[skipped] == "false"
    own_choice = SparkSettings(name="p", functions=False, conf={skipped: "true"})
    assert local_conf(own_choice)[skipped] == "true"


def test_past_jobs_are_kept_for_those_who_can_look_at_them() -> None:
    assert local_conf(SparkSettings(name="p"))["spark.sql.ui.retainedExecutions"] == "20"
    for looked_at in (SparkSettings(name="p", ui=True), SparkSettings(name="p", conf={"spark.ui.enabled": "true"})):
        assert "spark.sql.ui.retainedExecutions" not in local_conf(looked_at)


@pytest.mark.parametrize(
    ("master", "local"),
    [(None, True), ("local[2]", True), ("local", True), ("spark://h:7077", False), ("local-cluster[1,1,1024]", False)],
)
def test_what_is_a_cluster(master: str | None, local: bool) -> None:
    assert SparkSettings(name="p", master=master).is_local is local


def test_a_cluster_is_left_its_own_choices() -> None:
    conf = cluster_conf(SparkSettings(name="p", master="spark://h:7077"))
    assert conf["spark.master"] == "spark://h:7077"
    assert conf["spark.python.daemon.module"] == "penstock.pipeline.spark.worker_daemon"
    for of_one_machine in (
        "spark.driver.host",
        "spark.sql.shuffle.partitions",
        "spark.sql.streaming.checkpointFileManagerClass",
        "spark.driver.memory",
    ):
        assert of_one_machine not in conf


def test_no_option_names_what_a_java_lacks() -> None:
    assert any("sun.security.action" in option for option in jvm_options(JAVA_17, "1g"))
    assert not any("sun.security.action" in option for option in jvm_options(JAVA_25, "1g"))
    assert not any("jdk.incubator.vector" in option for option in jvm_options(JAVA_17, "1g"))


def test_the_class_path_has_one_order(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar", "slf4j-api-2.jar", "notes.txt"):
        (tmp_path / "jars" / name).touch()
    names = [Path(jar).name for jar in class_path(tmp_path, None).split(os.pathsep)]
    assert names == ["slf4j-api-2.jar", "a.jar", "b.jar"]
    assert class_path(tmp_path, Path("/conf")).startswith(f"/conf{os.pathsep}")


def an_archive(directory: Path) -> Path:
    archive = directory / "archive"
    archive.write_bytes(b"classes")
    (directory / "archive.size").write_text("7")
    return archive


class TestArchive:
    @pytest.fixture(autouse=True)
    def own_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv(java_archive.POLICY_VARIABLE, "use")
        monkeypatch.delenv(java_archive.RECORD_VARIABLE, raising=False)

    def test_none_is_used_before_there_is_one(self, tmp_path: Path) -> None:
        assert java_archive.archive_options(JAVA_17, tmp_path / "none.jsa") == []

    @pytest.mark.parametrize(("java", "option"), [(JAVA_17, "-XX:SharedArchiveFile="), (JAVA_25, "-XX:AOTCache=")])
    def test_one_that_is_there_is_used_unless_switched_off(
        self, java: JavaRuntime, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        archive = an_archive(tmp_path)
        assert f"{option}{archive}" in java_archive.archive_options(java, archive)
        monkeypatch.setenv(java_archive.POLICY_VARIABLE, "off")
        assert java_archive.archive_options(java, archive) == []

    @pytest.mark.parametrize("java", [JAVA_17, JAVA_25])
    def test_one_that_was_cut_short_is_not_used(self, java: JavaRuntime, tmp_path: Path) -> None:
        archive = an_archive(tmp_path)
        os.truncate(archive, 3)
        assert java_archive.archive_options(java, archive) == []

    def test_its_name_follows_what_it_depends_on(self, tmp_path: Path) -> None:
        options = jvm_options(JAVA_17, "1g")
        name = java_archive.archive_path(JAVA_17, options, tmp_path)
        assert name == java_archive.archive_path(JAVA_17, jvm_options(JAVA_17, "3g"), tmp_path)
        assert name != java_archive.archive_path(JAVA_25, options, tmp_path)
        assert name != java_archive.archive_path(JAVA_17, [*options, "-Dx=y"], tmp_path)
        os.utime(tmp_path, ns=(1, 1))
        assert name != java_archive.archive_path(JAVA_17, options, tmp_path)


FAKE_JAVA = """#!/bin/sh
for argument in "$@"; do
  case "$argument" in -XX:SharedArchiveFile=*) exit 134;; esac
done
printf '\\000\\000\\004\\322\\000\\000\\000\\006secret' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
cat > /dev/null
"""


def install_java(home: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    java = JavaRuntime(home, 17)
    java.java.parent.mkdir(parents=True)
    java.java.write_text(program)
    java.java.chmod(0o700)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv(java_archive.POLICY_VARIABLE, "use")


def test_an_archive_that_java_dies_of_does_not_break_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path / "java", FAKE_JAVA, monkeypatch)
    archive = an_archive(tmp_path)
    monkeypatch.setattr(java_archive, "archive_path", lambda *_facts: archive)
    settings = SparkSettings(name="p")
    runtime = session._launch(settings)
    try:
        assert runtime.await_gateway(settings) == Gateway(1234, "secret")
        assert not archive.exists()
    finally:
        runtime.end()
        runtime.zygote.wait(60)  # `end` waits long neither for one that is still importing, nor for a slow machine
    assert runtime.jvm.process.wait(60) == 0
    assert not runtime.directory.exists()


def test_java_options_of_the_user_come_last_and_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path / "java", f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/given\n', monkeypatch)
    wanted = {"spark.driver.extraJavaOptions": "-Xmx2g '-Dname=two words'"}
    runtime = session._launch(SparkSettings(name="p", driver_memory="1g", conf=wanted))
    try:
        assert runtime.jvm.process.wait(60) == 0
    finally:
        runtime.end()
    given = (tmp_path / "given").read_text().splitlines()
    before_classes = given[: given.index("-cp")]
    assert before_classes.index("-Xmx1g") < before_classes.index("-Xmx2g") < before_classes.index("-Dname=two words")


def test_a_java_that_was_started_ahead_and_is_not_needed_does_not_hold_the_command_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a real one does while it starts, it does not look at its standard input.
    install_java(tmp_path / "java", "#!/bin/sh\nexec sleep 600\n", monkeypatch)
    made: list[Path] = []
    monkeypatch.setattr(java_archive, "make_in_background", made.append)
    session.launch(SparkSettings(name="p"))
    runtime = session._running
    assert runtime is not None
    session.launch(SparkSettings(name="p"))
    assert session._running is runtime
    session.end_jvm()
    assert runtime.jvm.process.returncode == -signal.SIGKILL
    assert made == []
    assert runtime.zygote.returncode is not None
    assert not runtime.directory.exists()
    assert session._running is None


def test_nothing_is_started_ahead_for_a_cluster() -> None:
    session.launch(SparkSettings(name="p", master="spark://h:7077"))
    assert session._running is None


def test_a_handler_of_ctrl_c_that_was_there_stays_and_pysparks_own_replaces_none() -> None:
    def ours(_number: int, _frame: object) -> None:
        pass

    def of_pyspark(_number: int, _frame: object) -> None:
        pass

    before = signal.getsignal(signal.SIGINT)
    try:
        for handler, after in ((ours, ours), (signal.default_int_handler, of_pyspark)):
            signal.signal(signal.SIGINT, handler)
            with session._own_interrupt_handler():
                signal.signal(signal.SIGINT, of_pyspark)
            assert signal.getsignal(signal.SIGINT) == after
    finally:
        signal.signal(signal.SIGINT, before)
