"""A master URL is checked before Spark starts."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.spark.master import InvalidMaster, MasterError, require_master, standalone_masters

COPY = 'name: copy\nsource: {topic: in, schema: "id BIGINT"}\nsink: {topic: out}\n'


@pytest.mark.parametrize(
    "url", ["local", "local[2]", "local[*,4]", "local-cluster[2,1,1024]", "yarn", "k8s://https://h:6443"]
)
def test_masters_of_other_kinds_are_left_to_spark(url: str) -> None:
    assert standalone_masters(url) == []
    require_master(url)


def test_a_standalone_cluster_may_have_several_masters() -> None:
    assert standalone_masters("spark://a:7077,b:7078") == [("a", 7077), ("b", 7078)]


@pytest.mark.parametrize(
    "url", ["nohost:7077", "spark:/nohost:7077", "spark://nohost", "spark://:7077", "spark://h:99999", ""]
)
def test_what_is_no_master_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidMaster, match="is no master URL of Spark"):
        require_master(url)


def test_one_master_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away, here = unused.getsockname()[1], master.getsockname()[1]
        require_master(f"spark://127.0.0.1:{away},127.0.0.1:{here}")
        with pytest.raises(MasterError, match="connection refused"):
            require_master(f"spark://127.0.0.1:{away}")


@pytest.mark.parametrize(
    ("master", "code", "words"),
    [
        ("spark://nohost.invalid:7077", ExitCode.ENGINE_LOST, "the name 'nohost.invalid' does not resolve"),
        ("nohost:7077", ExitCode.USAGE, "did you mean spark://nohost:7077?"),
    ],
)
def test_the_command_says_it_in_one_line(master: str, code: ExitCode, words: str, tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(COPY)
    command = [sys.executable, "-m", "penstock.cli.main", "run", "--master", master, "copy.yaml"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert ran.stderr.count("\n") == 1
    assert words in ran.stderr
