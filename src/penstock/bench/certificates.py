"""An authority and a broker's certificate for 127.0.0.1, made by the machine's openssl for one measurement."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.measurement import MeasurementError

_DAYS = "2"
_NEW_KEY = ("-newkey", "rsa:2048", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files. `key_store` holds the broker's private key and its certificate, as KIP-651 wants them."""

    authority: Path
    key_store: Path

    @classmethod
    def make(cls, directory: Path) -> Certificates:
        def openssl(*arguments: str) -> None:
            try:
                subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)
            except FileNotFoundError:
                raise MeasurementError("openssl is not installed, and TLS needs certificates") from None

        authority = ("-keyout", "authority.key", "-out", "authority.pem", "-days", _DAYS, "-subj", "/CN=benchmark")
        openssl("req", "-x509", *_NEW_KEY, *authority)
        openssl("req", *_NEW_KEY, "-keyout", "broker.key", "-out", "broker.csr", "-subj", "/CN=127.0.0.1")
        (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        signed = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-extfile", "names")
        openssl("x509", "-req", "-in", "broker.csr", "-out", "broker.pem", "-days", _DAYS, *signed)
        key_store = directory / "key-store.pem"
        key_store.write_text((directory / "broker.key").read_text() + (directory / "broker.pem").read_text())
        return cls(directory / "authority.pem", key_store)

    @property
    def broker_config(self) -> dict[str, str]:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.key_store)}

    @property
    def client_config(self) -> dict[str, str | int | bool]:
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority)}
