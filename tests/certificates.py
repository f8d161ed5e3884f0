"""Certificates for tests, made by the `openssl` command: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_CONFIG = """
[ca]
default_ca = this
[this]
dir = {directory}
database = {directory}/index.txt
new_certs_dir = {directory}
serial = {directory}/serial
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
organizationName = optional
commonName = supplied
"""
VALID = ("20200101000000Z", "20990101000000Z")
EXPIRED = ("20200101000000Z", "20210101000000Z")
NOT_YET_VALID = ("20980101000000Z", "20990101000000Z")


@dataclass(frozen=True)
class Authority:
    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.pem"

    def issue(
        self,
        name: str,
        subject: str = "/O=example/CN=broker",
        hosts: str = "DNS:localhost,IP:127.0.0.1",
        dates: tuple[str, str] = VALID,
        password: str | None = None,
    ) -> Path:
        """A PEM file with the private key, the certificate and the authority's."""
        d = self.directory
        key, request, certificate = d / f"{name}.key", d / f"{name}.csr", d / f"{name}.crt"
        key_options = ["-noenc"] if password is None else ["-passout", f"pass:{password}"]
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *key_options, "-keyout", key,
                 "-out", request, "-subj", subject, "-addext", f"subjectAltName={hosts}")  # fmt: skip
        _openssl("ca", "-batch", "-config", d / "ca.cnf", "-cert", self.certificate, "-keyfile", d / "ca.key",
                 "-startdate", dates[0], "-enddate", dates[1], "-notext", "-in", request,
                 "-out", certificate)  # fmt: skip
        together = d / f"{name}.pem"
        together.touch(mode=0o600)
        together.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        return together


def new_authority(directory: Path) -> Authority:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ca.cnf").write_text(_CONFIG.format(directory=directory))
    (directory / "index.txt").touch()
    (directory / "serial").write_text("01\n")
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "36500",
             "-keyout", directory / "ca.key", "-out", directory / "ca.pem", "-subj", "/CN=test authority")  # fmt: skip
    return Authority(directory)


def _openssl(*arguments: str | Path) -> None:
    finished = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
