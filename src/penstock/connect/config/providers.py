"""Config providers: references to secrets in configurations, `${provider:path:key}`, as in Kafka (KIP-297).

A worker's properties name its providers, `config.providers=env,file,dir`; the classes are Kafka's three. References are
kept in topics and shown as they were written. They are resolved when a configuration is checked and when a connector
starts, and nowhere else.

Owns references. It must not know connectors, and no text that it raises contains a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from penstock.connect.config.definition import ConfigException
from penstock.connect.config.parsing import invalid
from penstock.core.properties import PropertiesError, parse_properties

PROVIDERS: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*?)\}")
_FILE_BYTES_MAX: Final = 1 << 20


class Provider(Protocol):
    def get(self, path: str, key: str) -> str:
        """Raises LookupError with a text that says what is missing."""
        ...


@dataclass(frozen=True, slots=True)
class EnvironmentProvider:
    """`${env:NAME}`. `allowlist.pattern` is an expression for the names that may be read."""

    allowed: re.Pattern[str] | None

    def get(self, path: str, key: str) -> str:
        if path:
            raise LookupError(f"write it as ${{env:{key}}}; environment variables have no path")
        if self.allowed is not None and not self.allowed.fullmatch(key):
            raise LookupError(f"allowlist.pattern does not allow the environment variable {key}")
        if key not in os.environ:
            raise LookupError(f"the environment variable {key} is not set")
        return os.environ[key]


@dataclass(frozen=True, slots=True)
class FileProvider:
    """`${file:/path/to/secrets.properties:key}`."""

    allowed: tuple[Path, ...]

    def get(self, path: str, key: str) -> str:
        text = _read(path, self.allowed)
        try:
            entries = {entry.key: entry.value for entry in parse_properties(text)}
        except PropertiesError as wrong:
            raise LookupError(f"{path}: line {wrong.line_number} is no property") from None
        if key not in entries:
            raise LookupError(f"{path} has no property '{key}'")
        return entries[key]


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """`${dir:/path/to/secrets:name}`: the content of a file, as Kubernetes mounts secrets."""

    allowed: tuple[Path, ...]

    def get(self, path: str, key: str) -> str:
        if not key or "/" in key or key in (".", ".."):
            raise LookupError(f"'{key}' is no name of a file in {path}")
        return _read(str(Path(path) / key), self.allowed)


def _read(path: str, allowed: tuple[Path, ...]) -> str:
    if not path:
        raise LookupError("the reference has no path")
    file = Path(path).resolve()
    if allowed and not any(file.is_relative_to(each) for each in allowed):
        raise LookupError(f"allowed.paths does not allow {path}")
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            raise LookupError(f"{path} is larger than {_FILE_BYTES_MAX} bytes")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise LookupError(f"{path} is no text in UTF-8") from None
    except OSError as failure:
        raise LookupError(f"cannot read {path}: {failure.strerror}") from None


class ConfigProviders:
    """The providers of a worker, by the names that its properties give them."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        """Raises ConfigException for a provider without a class, and for one that this worker does not have."""
        names = [each.strip() for each in worker.get(PROVIDERS, "").split(",") if each.strip()]
        self._providers = {name: _provider(name, worker) for name in names}

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """All properties with their references replaced. Raises ConfigException, which names the property."""
        resolved = {}
        for name, text in config.items():
            try:
                resolved[name] = self.resolve_text(text)
            except ConfigException as wrong:
                raise ConfigException(f"{name}: {wrong}", name) from None
        return resolved

    def resolve_text(self, text: str) -> str:
        return _REFERENCE.sub(self._replace, text) if "${" in text else text

    def _replace(self, reference: re.Match[str]) -> str:
        name, path, key = reference[1], reference[2] or "", reference[3]
        provider = self._providers.get(name)
        if provider is None:
            raise ConfigException(
                f"'{reference[0]}' refers to the config provider '{name}', which the worker does not have; set"
                f" {PROVIDERS} in the worker's properties"
            )
        try:
            return provider.get(path, key)
        except LookupError as missing:
            raise ConfigException(f"cannot resolve '{reference[0]}': {missing.args[0]}") from None


def _provider(name: str, worker: Mapping[str, str]) -> Provider:
    prefix = f"{PROVIDERS}.{name}."
    class_name = worker.get(f"{prefix}class", "").strip()
    if not class_name:
        raise ConfigException(f'Missing required configuration "{prefix}class" which has no default value.')
    parameters = {key.removeprefix(f"{prefix}param."): value for key, value in worker.items() if key.startswith(prefix)}
    allowed = tuple(
        Path(each.strip()).resolve() for each in parameters.get("allowed.paths", "").split(",") if each.strip()
    )
    match class_name.removeprefix(_PACKAGE):
        case "EnvVarConfigProvider":
            return EnvironmentProvider(_pattern(f"{prefix}param.allowlist.pattern", parameters))
        case "FileConfigProvider":
            return FileProvider(allowed)
        case "DirectoryConfigProvider":
            return DirectoryProvider(allowed)
    raise invalid(
        f"{prefix}class",
        class_name,
        f"supported are {_PACKAGE}EnvVarConfigProvider, FileConfigProvider and DirectoryConfigProvider",
    )


def _pattern(name: str, parameters: Mapping[str, str]) -> re.Pattern[str] | None:
    text = parameters.get("allowlist.pattern")
    try:
        return None if text is None else re.compile(text)
    except re.error as wrong:
        raise invalid(name, text, f"Invalid regex: {wrong}") from None
