"""Clients of other projects, each asked for the same thing: produce one record to a topic, and read one back.

Settings are in librdkafka's names. An attempt that fails raises `Refused` with what the client says.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.clients.java_client import compiled_command
from tests.clients.kafkajs_client import node_command

_ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 20
Settings = Mapping[str, str]
Attempt = Callable[[Settings, str, float], None]
"""With the settings, the topic, and for how many seconds to go on producing by one connection."""


class Refused(Exception):
    """What the client says of it."""


class Driver:
    """A program that makes one attempt for each line of JSON; see java/SecurityDriver.java.

    librdkafka runs in one, too: a call of it that does not return can only be ended with its process.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the driver)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            cwd=_ROOT,
            text=True,
        )

    def ask(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        timer = threading.Timer(TIMEOUT_S * 3, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line:
            self._errors.seek(0)
            raise AssertionError(self._errors.read().decode(errors="replace")[-3000:])
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])

    def close(self) -> None:
        self._process.communicate(timeout=TIMEOUT_S)
        self._errors.close()


_KAFKA_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_config(settings: Settings, scratch: Path) -> dict[str, str]:
    """Kafka's own names; certificates as PEM stores (KIP-651), a token as a file."""
    config = {name: settings[name] for name in ("bootstrap.servers", "security.protocol")}
    if "ssl.ca.location" in settings:
        config |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": settings["ssl.ca.location"]}
    if "ssl.certificate.location" in settings:
        config |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": settings["ssl.certificate.location"]}
    if "sasl.mechanism" in settings:
        config["sasl.mechanism"] = mechanism = settings["sasl.mechanism"]
        if mechanism == "OAUTHBEARER":
            token = scratch / "token"
            token.write_text(settings["sasl.oauthbearer.token"])
            package = "org.apache.kafka.common.security.oauthbearer"
            config |= {
                "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
                "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
            }
        else:
            user, password = settings["sasl.username"], settings["sasl.password"]
            config["sasl.jaas.config"] = (
                f'{_KAFKA_MODULES[mechanism]} required username="{user}" password="{password}";'
            )
    return config


def kafkajs_config(settings: Settings) -> dict[str, Any]:
    config: dict[str, Any] = {"brokers": [settings["bootstrap.servers"]]}
    if "ssl.ca.location" in settings:
        config["ssl"] = {"ca": settings["ssl.ca.location"], "certificate": settings.get("ssl.certificate.location")}
    elif settings["security.protocol"].endswith("SSL"):
        raise AssertionError("kafkajs needs an authority")
    if "sasl.mechanism" in settings:
        config["sasl"] = {
            "mechanism": settings["sasl.mechanism"].lower(),
            "username": settings.get("sasl.username"),
            "password": settings.get("sasl.password"),
            "token": settings.get("sasl.oauthbearer.token"),
        }
    return config


@contextlib.contextmanager
def python_attempts(client: str) -> Iterator[Attempt]:
    driver = Driver([sys.executable, "-m", "tests.integration.security.python_driver", client], os.environ)

    def attempt(settings: Settings, topic: str, hold_s: float) -> None:
        driver.ask({"settings": dict(settings), "topic": topic, "hold_ms": int(hold_s * 1000)})

    try:
        yield attempt
    finally:
        driver.close()


@contextlib.contextmanager
def java_attempts() -> Iterator[Attempt]:
    with tempfile.TemporaryDirectory(prefix="java-security-") as scratch:
        driver = Driver(compiled_command(Path(scratch), "SecurityDriver"), os.environ)

        def attempt(settings: Settings, topic: str, hold_s: float) -> None:
            config = java_config(settings, Path(scratch))
            driver.ask({"config": config, "topic": topic, "hold_ms": int(hold_s * 1000)})

        try:
            yield attempt
        finally:
            driver.close()


@contextlib.contextmanager
def kafkajs_attempts() -> Iterator[Attempt]:
    driver = Driver(*node_command("security_driver.js"))

    def attempt(settings: Settings, topic: str, hold_s: float) -> None:
        driver.ask({**kafkajs_config(settings), "topic": topic, "hold_ms": int(hold_s * 1000)})

    try:
        yield attempt
    finally:
        driver.close()
