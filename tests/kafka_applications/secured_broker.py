"""A broker process that speaks SASL_SSL only, has ACLs on and no super user.

Its users and ACLs are made by `penstock user` and `penstock acl`: at its first start it has a loopback listener too,
whose client is a super user, as docs/security.md describes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from penstock.testing import Broker
from penstock.testing.apache_kafka import free_ports
from tests.certificates import new_authority

_COMMAND_TIMEOUT_S: Final = 60


class SecuredBroker:
    """A context manager that ends the process. `start_for_setup` comes first, then `stop` and `start`."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        authority = new_authority(directory / "authority")
        self._authority_file = authority.certificate
        self._port, self._setup_port = free_ports(2)
        self._secured = {
            "listeners": f"SASL_SSL://127.0.0.1:{self._port}",
            "advertised.listeners": f"SASL_SSL://localhost:{self._port}",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("broker")),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            **settings,
        }
        self._broker = Broker(data_dir=directory / "data")

    @property
    def bootstrap_servers(self) -> str:
        return f"localhost:{self._port}"

    @property
    def data_dir(self) -> Path:
        return self._broker.data_dir

    @property
    def output(self) -> str:
        """The end of what the process has printed on stderr."""
        return self._broker.stderr_text()

    def start_for_setup(self) -> None:
        """With one more listener, for the administrator who creates the first users."""
        open_listener = f"PLAINTEXT://127.0.0.1:{self._setup_port}"
        more = {name: f"{self._secured[name]},{open_listener}" for name in ("listeners", "advertised.listeners")}
        self._broker.config = {**self._secured, **more, "super.users": "User:ANONYMOUS"}
        self._broker.start()

    def start(self) -> None:
        self._broker.config = self._secured
        self._broker.start()

    def stop(self) -> None:
        self._broker.stop()

    def kill(self) -> None:
        """SIGKILL."""
        assert self._broker.is_running(), self.output
        self._broker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.stop()

    def create_user(self, name: str) -> None:
        self._penstock("user", "create", name, typed=f"{password_of(name)}\n")

    def allow(self, user: str, *words: str) -> None:
        self._penstock("acl", "create", "--allow-principal", f"User:{user}", *words)

    def _penstock(self, *words: str, typed: str | None = None) -> None:
        """A command of the administrator, during the setup."""
        address = f"127.0.0.1:{self._setup_port}"
        done = subprocess.run(
            [sys.executable, "-P", "-m", "penstock.cli.main", *words, "--bootstrap-server", address],
            input=typed,
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
            env=os.environ | {"PENSTOCK_COMMAND_CONFIG": ""},
        )
        assert done.returncode == 0, done.stderr

    def java_settings(self, user: str) -> dict[str, str]:
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{login} username="{user}" password="{password_of(user)}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority_file),
        }

    def librdkafka_settings(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password_of(user),
            "ssl.ca.location": str(self._authority_file),
            "log_level": 0,
        }


def password_of(user: str) -> str:
    return f"{user}-secret"
