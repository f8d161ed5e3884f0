"""A broker process with a listener of every security protocol, its certificates, users and tokens.

Its settings are in a properties file, because secrets are refused on the command line. What it logs, at INFO, is kept
for tests that look for a line, or for a secret.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.core.acls import AclBinding, AclOperation, AclPermission, ResourcePattern, ResourceType
from penstock.metadata.broker_config_definitions import STANDARD_AUTHORIZER
from tests.certificates import EXPIRED, Authority, new_authority
from tests.token_issuer import TokenIssuer, key_set

PASSWORDS = {"admin": "admin-s3cret", "alice": "alice-s3cret", "mallory": "mallory-s3cret"}
REAUTH_MS = 1500
START_TIMEOUT_S = 30
_SASL = ("SASL_PLAINTEXT", "SASL_SSL", "SHORT")


class BrokerProcess:
    """`penstock broker --config`; `log` is what it wrote to standard error so far."""

    def __init__(self, directory: Path, properties: Mapping[str, str], mode: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.data_dir = directory / "data"
        self.properties_file = directory / "server.properties"
        self.properties_file.touch()
        self.properties_file.chmod(mode)
        self.properties_file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._log_file = directory / "broker.log"
        with self._log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.main", "broker", "--config", str(self.properties_file),
                 "--data-dir", str(self.data_dir), "--json", "--exit-with-stdin"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PENSTOCK_LOG_LEVEL": "INFO"},
                text=True,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self._log_file.read_text(errors="replace")

    def await_ready(self) -> dict[str, str]:
        """The addresses of its listeners by their names."""
        assert self.process.stdout is not None
        timer = threading.Timer(START_TIMEOUT_S, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        assert line, f"the broker did not start: {self.log}"
        listeners: dict[str, str] = json.loads((self.data_dir / "broker.json").read_text())["listeners"]
        return listeners

    def await_line(self, pattern: str, position: int = 0) -> None:
        """The broker logs when it hangs up, which may be after the client has heard of it."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not re.search(pattern, self.log[position:]):
            assert time.monotonic() < deadline, f"{pattern!r} is not in {self.log[position:]}"
            time.sleep(0.01)

    def stop(self) -> int:
        if self.process.returncode is None:
            self.process.communicate(timeout=START_TIMEOUT_S)
        return self.process.returncode


@contextlib.contextmanager
def broker_process(directory: Path, properties: Mapping[str, str], *, mode: int = 0o600) -> Iterator[BrokerProcess]:
    """`mode` is that of the properties file."""
    broker = BrokerProcess(directory, properties, mode)
    try:
        yield broker
    finally:
        broker.stop()


@dataclass(frozen=True)
class Secured:
    """A broker that runs, and all credentials, right and wrong."""

    broker: BrokerProcess
    addresses: Mapping[str, str]
    authority: Authority
    client_certificate: Path
    expired_certificate: Path
    foreign_certificate: Path
    issuer: TokenIssuer

    def settings(self, listener: str, mechanism: str = "PLAIN", user: str = "alice", **more: str) -> dict[str, str]:
        """In librdkafka's names."""
        protocol = "SASL_PLAINTEXT" if listener == "SHORT" else listener
        settings = {"bootstrap.servers": self.addresses[listener], "security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl.ca.location"] = str(self.authority.certificate)
        if protocol == "SSL":
            settings["ssl.certificate.location"] = settings["ssl.key.location"] = str(self.client_certificate)
        if protocol.startswith("SASL"):
            settings["sasl.mechanism"] = mechanism
            if mechanism == "OAUTHBEARER":
                settings["sasl.oauthbearer.token"] = self.issuer.token(user)
            else:
                settings |= {"sasl.username": user, "sasl.password": PASSWORDS[user]}
        return settings | more


def properties_of(directory: Path, authority: Authority, keys: Path) -> dict[str, str]:
    plain = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    names = ("PLAINTEXT", "SSL", *_SASL)
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "advertised.listeners": ",".join(f"{name}://localhost:0" for name in names),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "SASL_SSL:SASL_SSL,SHORT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.location": str(authority.issue("broker")),
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=example$/$1/L,DEFAULT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        **{
            f"listener.name.{name.lower()}.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            f"PlainLoginModule required {plain};"
            for name in _SASL
        },
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "listener.name.short.connections.max.reauth.ms": str(REAUTH_MS),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
    }


@contextlib.contextmanager
def secured_broker(directory: Path) -> Iterator[Secured]:
    authority, foreign = new_authority(directory / "authority"), new_authority(directory / "foreign")
    issuer = TokenIssuer()
    keys = directory / "keys.json"
    keys.write_text(key_set(issuer))
    alice = "/O=example/CN=Alice"
    with broker_process(directory / "broker", properties_of(directory, authority, keys)) as broker:
        yield Secured(
            broker,
            broker.await_ready(),
            authority,
            client_certificate=authority.issue("client", subject=alice),
            expired_certificate=authority.issue("expired", subject=alice, dates=EXPIRED),
            foreign_certificate=foreign.issue("foreign", subject=alice),
            issuer=issuer,
        )


def all_of(kind: ResourceType, name: str, principal: str) -> AclBinding:
    return AclBinding(ResourcePattern(kind, name), principal, "*", AclOperation.ALL, AclPermission.ALLOW)
