"""`penstock run` against a broker with TLS, SASL and ACLs, with Kafka's setting names in the pipeline file.

A pipeline from topic to topic, exactly once, begins without any right. Each refusal is one line that ends with the
command that grants what is missing; carrying these commands out, one after the other, leads to a run that succeeds.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.security_admin import SecurityAdmin
from penstock.core.credentials import ScramMechanism
from penstock.core.exit_codes import ExitCode
from tests.integration.security.secured_broker import PASSWORDS, Secured, secured_broker
from tests.pipeline.penstock_commands import penstock

RUNS_MAX = 7
TIMEOUT_S = 30
PIPELINE = """
name: copy
guarantee: exactly_once
bootstrap_servers: {servers}
source:
  topic: orders
  schema: id BIGINT
  options: &kafka
    kafka.security.protocol: SASL_SSL
    kafka.sasl.mechanism: SCRAM-SHA-512
    kafka.sasl.jaas.config: 'org.apache.kafka.common.security.scram.ScramLoginModule required
      username="alice" password="${{KAFKA_PASSWORD}}";'
    kafka.ssl.truststore.type: PEM
    kafka.ssl.truststore.location: {authority}
sink: {{topic: copies, options: *kafka}}
on_error: drop
"""


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with secured_broker(tmp_path / "secured") as running:
        admin = SecurityAdmin(running.settings("SASL_SSL", "PLAIN", "admin"))
        admin.create_topic("orders", partitions=2)
        admin.create_topic("copies", partitions=2)
        admin.set_user("alice", ScramMechanism.SCRAM_SHA_512, PASSWORDS["alice"])
        with Producer(running.settings("SASL_SSL", "PLAIN", "admin")) as producer:
            for number in range(10):
                producer.send("orders", json.dumps({"id": number}).encode()).result(TIMEOUT_S)
        yield running


@contextlib.contextmanager
def watched_command_lines(secret: bytes) -> Iterator[list[bytes]]:
    """Command lines that have shown the secret while the context lasted."""
    seen: list[bytes] = []
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(0.1):
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    shown = (process / "cmdline").read_bytes()
                    if secret in shown:
                        seen.append(shown)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        stopped.set()
        thread.join()


def grant(secured: Secured, directory: Path, line: str) -> str:
    """Carries out the command at the end of a refusal, as the administrator."""
    told = shlex.split(line.partition("to allow it: ")[2].replace("User:NAME", "User:alice"))
    assert told[:3] == ["penstock", "acl", "create"], line
    file = directory / "admin.properties"
    settings = secured.settings("SASL_SSL", "PLAIN", "admin")
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    ran = penstock(directory, "--command-config", str(file), *told[1:])
    assert ran.returncode == 0, ran.stderr
    return " ".join(told[5:])


@pytest.mark.slow
def test_rights_that_are_missing_are_named_one_by_one_until_the_pipeline_runs(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(
        PIPELINE.format(servers=secured.addresses["SASL_SSL"], authority=secured.authority.certificate)
    )
    variables = {"KAFKA_PASSWORD": PASSWORDS["alice"]}
    guessed = penstock(tmp_path, "run", "copy.yaml", "--once", variables={"KAFKA_PASSWORD": "guessed-s3cret"})
    assert guessed.returncode == ExitCode.ACCESS_DENIED
    [line] = guessed.stderr.splitlines()
    assert "refused the credentials: Authentication failed. (SASL_AUTHENTICATION_FAILED)" in line
    assert "guessed-s3cret" not in line
    granted: list[str] = []
    with watched_command_lines(PASSWORDS["alice"].encode()) as seen:
        for _ in range(RUNS_MAX):
            ran = penstock(tmp_path, "run", "copy.yaml", "--once", variables=variables)
            assert PASSWORDS["alice"] not in ran.stdout + ran.stderr
            if ran.returncode == 0:
                break
            assert ran.returncode == ExitCode.ACCESS_DENIED, ran.stderr
            [line] = [line for line in ran.stderr.splitlines() if "to allow it: " in line]
            granted.append(grant(secured, tmp_path, line))
        else:
            pytest.fail(f"still refused: {granted}")
    assert seen == [], "a command line has shown the password"
    assert sorted(granted) == [
        "--operation Read --group copy.batches",
        "--operation Read --topic copies",
        "--operation Read --topic orders",
        "--operation Write --topic copies",
        "--operation Write --transactional-id copy",
    ]
    settings = secured.settings("SASL_SSL", "PLAIN", "admin") | {"group.id": "check", "auto.offset.reset": "earliest"}
    copied: list[int] = []
    with Consumer({**settings, "isolation.level": "read_committed"}) as consumer:
        consumer.subscribe(["copies"])
        while len(copied) < 10:
            copied += [json.loads(record.value or b"")["id"] for record in consumer.poll(TIMEOUT_S)]
    assert sorted(copied) == list(range(10))
    # Nothing that a run leaves behind has the password either.
    for file in (each for each in tmp_path.rglob("*") if each.is_file() and "secured" not in each.parts):
        if file.name != "admin.properties":
            assert PASSWORDS["alice"].encode() not in file.read_bytes(), file
