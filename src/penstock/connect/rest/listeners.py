"""Where the REST API listens: `listeners`, `rest.advertised.*` and `listeners.https.ssl.*` of a worker.

Owns these properties. Certificates and keys are PEM, in files or in the properties themselves (KIP-651).
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from penstock.connect.config.definition import ConfigException
from penstock.connect.config.parsing import invalid
from penstock.core.addresses import host_port_text

DEFAULT_LISTENERS: Final = "http://127.0.0.1:8083"
"""Kafka Connect listens on all interfaces by default; here a worker that others can reach says so."""
_SSL_PREFIX: Final = "listeners.https."
_PEM_BEGIN: Final = "-----BEGIN"


@dataclass(frozen=True, slots=True)
class Listener:
    """`host` is empty for all interfaces; port 0 takes a free one."""

    scheme: Literal["http", "https"]
    host: str
    port: int

    def url(self, port: int) -> str:
        return f"{self.scheme}://{host_port_text(self.host or '127.0.0.1', port)}"


def parse_listeners(config: Mapping[str, str]) -> list[Listener]:
    """Raises ConfigException that names the listener."""
    text = config.get("listeners") or DEFAULT_LISTENERS
    return [_listener(each.strip()) for each in text.split(",") if each.strip()]


def _listener(text: str) -> Listener:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        port = None
    if port is None or parts.scheme.lower() not in ("http", "https") or parts.path.strip("/"):
        raise invalid("listeners", text, "expected http://HOST:PORT or https://HOST:PORT; no host: all interfaces")
    scheme: Literal["http", "https"] = "https" if parts.scheme.lower() == "https" else "http"
    return Listener(scheme, "" if parts.hostname in (None, "0.0.0.0") else parts.hostname or "", port)  # noqa: S104


def advertised_url(config: Mapping[str, str], listener: Listener, port: int) -> str:
    """The address that the worker tells others: `rest.advertised.*`, else that of its first listener."""
    scheme = config.get("rest.advertised.listener") or listener.scheme
    host = config.get("rest.advertised.host.name") or listener.host or "127.0.0.1"
    advertised_port = config.get("rest.advertised.port")
    if advertised_port is not None and not advertised_port.strip().isdigit():
        raise invalid("rest.advertised.port", advertised_port, "Not a number of type INT")
    return f"{scheme}://{host_port_text(host, int(advertised_port or port))}"


def tls_context(config: Mapping[str, str]) -> ssl.SSLContext:
    """For the HTTPS listeners. Raises ConfigException."""
    settings = {name: value for name, value in config.items() if name.startswith("ssl.")}
    settings |= {name.removeprefix(_SSL_PREFIX): value for name, value in config.items() if _is_own(name)}
    _refuse_java_stores(settings)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load_key(context, settings)
    _load_trust(context, settings)
    return context


def _is_own(name: str) -> bool:
    return name.startswith(f"{_SSL_PREFIX}ssl.")


def _refuse_java_stores(settings: Mapping[str, str]) -> None:
    for store in ("keystore", "truststore"):
        given = settings.get(f"ssl.{store}.type", "PEM")
        if given.upper() != "PEM":
            raise invalid(
                f"{_SSL_PREFIX}ssl.{store}.type", given, "supported is PEM; `keytool` and `openssl pkcs12` convert"
            )


def _load_key(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    location = settings.get("ssl.keystore.location")
    key, chain = settings.get("ssl.keystore.key"), settings.get("ssl.keystore.certificate.chain")
    if location is None and (key is None or chain is None):
        raise ConfigException(
            f"an https listener needs {_SSL_PREFIX}ssl.keystore.location, a PEM file with key and certificates, or"
            f" {_SSL_PREFIX}ssl.keystore.key and {_SSL_PREFIX}ssl.keystore.certificate.chain",
            f"{_SSL_PREFIX}ssl.keystore.location",
        )
    password = settings.get("ssl.key.password") or settings.get("ssl.keystore.password") or ""
    try:
        if location is not None:
            context.load_cert_chain(location, password=password)
            return
        with tempfile.TemporaryDirectory(prefix="penstock-tls-") as directory:
            file = Path(directory) / "key.pem"
            file.touch(mode=0o600)
            file.write_text(f"{_pem(key or '')}\n{_pem(chain or '')}\n", encoding="ascii")
            context.load_cert_chain(file, password=password)
    except (OSError, ValueError) as failure:
        name = f"{_SSL_PREFIX}ssl.keystore.location"
        raise ConfigException(f"{name}: {location or 'the key in the properties'}: {failure}", name) from None


def _load_trust(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    wanted = settings.get("ssl.client.auth", "none").strip().lower()
    modes = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    if wanted not in modes:
        raise invalid(f"{_SSL_PREFIX}ssl.client.auth", wanted, "String must be one of: required, requested, none")
    location, certificates = settings.get("ssl.truststore.location"), settings.get("ssl.truststore.certificates")
    try:
        if location is not None:
            context.load_verify_locations(location)
        elif certificates is not None:
            context.load_verify_locations(cadata=_pem(certificates))
    except (OSError, ValueError) as failure:
        name = f"{_SSL_PREFIX}ssl.truststore.location"
        raise ConfigException(f"{name}: {location or 'the certificates in the properties'}: {failure}", name) from None
    context.verify_mode = modes[wanted]


def _pem(text: str) -> str:
    """In a properties file all lines of a certificate may stand in one, separated by spaces."""
    if "\n" in text.strip():
        return text.strip()
    blocks = text.strip().replace("-----END", "\n-----END").replace(_PEM_BEGIN, f"\n{_PEM_BEGIN}")
    lines = []
    for line in filter(None, (each.strip() for each in blocks.split("\n"))):
        if line.startswith(_PEM_BEGIN):
            head, _, body = line[len(_PEM_BEGIN) :].partition("-----")
            lines += [f"{_PEM_BEGIN}{head}-----", *body.split()]
        else:
            lines.append(line)
    return "\n".join(lines)
