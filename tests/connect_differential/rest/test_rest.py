"""One HTTP script against Kafka's own Connect worker and against ours: answers are equal, field by field."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.core.exit_codes import ExitCode
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.connect_differential.rest.differences import BODY_IS_OURS, OTHER_STATUS, differences
from tests.connect_differential.rest.kafka_worker import kafka_worker
from tests.connect_differential.rest.our_worker import herder_in_memory, our_worker, real_herder
from tests.connect_differential.rest.script import STEPS, Step, run, sink, wait_until
from tests.kafka_applications.java_programs import application_jars

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _jars() -> None:
    try:
        application_jars()
    except JavaMissingError as missing:
        optional_part_missing(str(missing))


def with_files(step: Step, directory: Path) -> Step:
    def filled(value: Any) -> Any:
        if value is None or isinstance(value, bytes):
            return value
        text = json.dumps(value).replace("{file}", str(directory / "in.txt"))
        return json.loads(text.replace("{out}", str(directory / "out.txt")))

    return replace(step, body=filled(step.body))


def drive_with_the_command_line(url: str, directory: Path) -> None:
    """`penstock connector` works with Kafka's own worker."""
    (directory / "cli.json").write_text(json.dumps({"name": "cli", "config": sink(file=str(directory / "out.txt"))}))

    def command(*words: str) -> int:
        return main(["connector", *words, "--url", url])

    assert command("validate", str(directory / "cli.json")) == ExitCode.OK
    assert command("create", str(directory / "cli.json"), "--stopped") == ExitCode.OK
    wait_until(lambda: command("status", "cli") == ExitCode.OK, "a status of the connector")
    assert command("create", str(directory / "cli.json")) == ExitCode.FAILURE
    assert command("offsets", "cli") == ExitCode.OK
    assert command("plugins", "--all") == ExitCode.OK
    assert command("resume", "cli") == ExitCode.OK
    assert command("list") == ExitCode.OK
    assert command("delete", "cli") == ExitCode.OK
    assert command("status", "nope") == ExitCode.NOT_FOUND


def test_every_answer_is_kafka_connects(tmp_path: Path) -> None:
    # Empty, because our herder of this test moves nothing, and offsets and topics are compared too.
    (tmp_path / "in.txt").touch()
    steps = [with_files(step, tmp_path) for step in STEPS]
    with kafka_worker(tmp_path / "kafka") as url:
        kafka = run(url, steps, leaves_tasks=True)
        drive_with_the_command_line(url, tmp_path)
    for herder in (real_herder, herder_in_memory):
        with our_worker(herder) as url:
            ours = run(url, steps)
        found = [each for name, answer in kafka.items() for each in differences(name, answer, ours[name])]
        assert not found, "\n".join([herder.__name__, *found])
    assert len(kafka) > 60
    assert {*OTHER_STATUS, *BODY_IS_OURS} <= kafka.keys(), "a difference is named for a step that is not there"
