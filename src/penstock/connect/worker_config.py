"""The properties of a worker, as connect-distributed.properties and connect-standalone.properties have them.

Owns the definitions of those that all workers have, which are Kafka Connect 4.3's, and what becomes of names that have
no effect here. Properties of clients (`bootstrap.servers`, `security.protocol`, `producer.acks`) go to the clients as
they are.

Invariant: a property that is known and not supported is an error or a warning that names it; none is ignored silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.definition import REQUIRED, ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.distributed_properties import DISTRIBUTED
from penstock.connect.config.overrides import ALLOWLIST, policy_name
from penstock.connect.config.parsing import at_least
from penstock.connect.config.providers import PROVIDERS, ConfigProviders
from penstock.connect.config.validation import validate_all
from penstock.connect.plugins import BrokenPlugin, Interface, Plugins, UnknownPlugin, WrongInterface
from penstock.connect.rest.authentication import PASSWORD_FILE, TOKEN_FILE
from penstock.connect.rest.listeners import DEFAULT_LISTENERS, parse_listeners
from penstock.core.properties import PropertiesError, parse_properties

Mode = Literal["standalone", "distributed"]
Part = Literal["key", "value", "header"]

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_CONVERTERS: Final[Mapping[Part, Interface]] = {"key": "Converter", "value": "Converter", "header": "HeaderConverter"}
_POLICY: Final = "connector.client.config.override.policy"
_SIMPLE_HEADER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


def _text(name: str, default: Any, doc: str, importance: Importance = _LOW, **more: Any) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, importance, doc, **more)


def _number(name: str, default: Any, doc: str, lowest: int = 0, type_: ConfigType = ConfigType.LONG) -> ConfigKey:
    return ConfigKey(name, type_, default, _LOW, doc, validator=at_least(lowest))


def _flag(name: str, default: str, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, _LOW, doc)


def _list(name: str, default: Any, doc: str, importance: Importance = _LOW) -> ConfigKey:
    return ConfigKey(name, ConfigType.LIST, default, importance, doc)


_COMMON: Final = ConfigDef(
    (
        _list("bootstrap.servers", REQUIRED, "The brokers to connect to.", _HIGH),
        ConfigKey("key.converter", ConfigType.CLASS, REQUIRED, _HIGH, "The converter of keys, by default."),
        ConfigKey("value.converter", ConfigType.CLASS, REQUIRED, _HIGH, "The converter of values, by default."),
        ConfigKey("header.converter", ConfigType.CLASS, _SIMPLE_HEADER, _LOW, "The converter of headers, by default."),
        _number("task.shutdown.graceful.timeout.ms", "5000", "How long tasks may take to stop."),
        _number("offset.flush.interval.ms", "60000", "How often offsets of sources are committed."),
        _list(PROVIDERS, "", "Names of config providers; each has config.providers.NAME.class."),
        _text("connector.client.config.override.policy", "All", "Which client settings connectors may override."),
        _list(ALLOWLIST, "", "For the policy Allowlist: the client settings that connectors may override."),
        _flag("topic.creation.enable", "true", "Whether sources may create topics with settings of their own."),
        _flag("topic.tracking.enable", "true", "Whether GET /connectors/NAME/topics knows the topics in use."),
        _flag("topic.tracking.allow.reset", "true", "Whether these can be reset."),
        _list("listeners", DEFAULT_LISTENERS, "URLs of the REST API: http://HOST:PORT, https://HOST:PORT."),
        _text("rest.advertised.host.name", None, "The host that other workers use."),
        ConfigKey("rest.advertised.port", ConfigType.INT, None, _LOW, "The port that other workers use."),
        _text("rest.advertised.listener", None, "http or https: which listener other workers use."),
        _text("access.control.allow.origin", "", "Origins whose pages may use the REST API."),
        _text("access.control.allow.methods", "", "Methods that they may use; default: GET, POST, HEAD."),
        _list("rest.extension.classes", "", "BasicAuthSecurityRestExtension, for Basic authentication."),
        _text(PASSWORD_FILE, None, "Basic authentication: a file with user=password lines."),
        _text(TOKEN_FILE, None, "Bearer authentication: a file with a token in each line."),
    )
)

_STANDALONE: Final = ConfigDef(
    (_text("offset.storage.file.filename", REQUIRED, "Where offsets of sources are kept.", _HIGH),)
)

_UNSUPPORTED: Final[Mapping[str, str]] = {
    "admin.listeners": "the admin paths are served by the listeners of `listeners`",
    "response.http.headers.config": "set headers in a proxy in front of the worker",
    "metric.reporters": "metrics are served for Prometheus, with --metrics",
    "ssl.engine.factory.class": "certificates are PEM files",
    "worker.unsync.backoff.ms": "a worker that cannot read the config topic leaves the group",
}
"""An error: the user relies on an effect that is not there."""

_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "plugin.path": "plugins are Python packages with an entry point of the group penstock.connectors",
    "plugin.discovery": "plugins are found by their entry points",
    "offset.flush.timeout.ms": "offsets are committed with the records",
    "metrics.sample.window.ms": "metrics are counters, without windows",
    "metrics.num.samples": "metrics are counters, without windows",
    "metrics.recording.level": "all metrics are recorded",
    "connect.protocol": "the group of workers is an ordinary consumer group",
    "inter.worker.key.generation.algorithm": "workers share no session keys",
    "inter.worker.key.size": "workers share no session keys",
    "inter.worker.key.ttl.ms": "workers share no session keys",
    "inter.worker.signature.algorithm": "workers share no session keys",
    "inter.worker.verification.algorithms": "workers share no session keys",
    "key.converter.plugin.version": "each plugin has one version",
    "value.converter.plugin.version": "each plugin has one version",
    "header.converter.plugin.version": "each plugin has one version",
    "worker.sync.timeout.ms": "workers read the config topic to its end before they join",
}
"""A warning: nothing is lost without them."""

_OF_CLIENTS: Final = ("producer.", "consumer.", "admin.")
_WITH_PARTS: Final = (
    *_OF_CLIENTS,
    f"{PROVIDERS}.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "listeners.https.",
    "ssl.",
    "sasl.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "topic.creation.",
    "penstock.",
)
_CLIENT_SETTINGS: Final = frozenset(
    {
        "client.id", "client.dns.lookup", "security.protocol", "request.timeout.ms", "retry.backoff.ms",
        "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "metadata.max.age.ms",
        "metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms", "connections.max.idle.ms",
        "receive.buffer.bytes", "send.buffer.bytes", "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """`properties` are as they were given, with references to secrets resolved; `values` are parsed."""

    mode: Mode
    properties: Mapping[str, str]
    values: Mapping[str, Any]
    warnings: Sequence[str]

    def providers(self) -> ConfigProviders:
        return ConfigProviders(self.properties)

    def defaults(self) -> WorkerDefaults:
        """What they decide about connectors."""
        values = self.values
        return WorkerDefaults(
            key_converter=values["key.converter"],
            value_converter=values["value.converter"],
            header_converter=values["header.converter"],
            # A standalone worker has no transactions between its config and its tasks, as in Kafka Connect.
            exactly_once_source=values.get("exactly.once.source.support", "disabled").lower() == "enabled",
            override_policy=policy_name(values["connector.client.config.override.policy"]),
            override_allowlist=tuple(values[ALLOWLIST]),
            topic_creation_enabled=values["topic.creation.enable"],
        )

    def check_converters(self, plugins: Plugins) -> None:
        """Raises ConfigException. Importing converters takes longer than all the rest, so REST answers before."""
        mistakes = []
        for part, interface in _CONVERTERS.items():
            class_name, own = self.converter(part)
            try:
                definition = plugins.load(interface, class_name).definition
            except BrokenPlugin as broken:
                mistakes.append(f"{part}.converter: {broken}")
                continue
            for value in validate_all(definition, {**own, "converter.type": part}):
                mistakes += [f"{part}.converter.{value.name}: {error}" for error in value.errors]
        if mistakes:
            raise ConfigException("\n".join(mistakes))

    def converter(self, part: Part) -> tuple[str, dict[str, str]]:
        """The class of the worker's converter, and the converter's own properties."""
        prefix = f"{part}.converter."
        own = {name.removeprefix(prefix): value for name, value in self.properties.items() if name.startswith(prefix)}
        return self.values[prefix[:-1]], own


def parse_worker_config(mode: Mode, properties: Mapping[str, str], plugins: Plugins) -> WorkerConfig:
    """Raises ConfigException with all mistakes, one in each line."""
    resolved = ConfigProviders(properties).resolve(properties)
    definition = _COMMON + (_STANDALONE if mode == "standalone" else DISTRIBUTED)
    parsed = validate_all(definition, resolved)
    mistakes = [error for value in parsed for error in value.errors]
    values = {value.name: value.value for value in parsed}
    mistakes += _wrong_converters(plugins, values)
    mistakes += [f"{name}: not supported; {why}" for name, why in _UNSUPPORTED.items() if name in resolved]
    for check in (lambda: parse_listeners(resolved), lambda: policy_name(values[_POLICY] or "All")):
        try:
            check()
        except ConfigException as wrong:
            mistakes.append(str(wrong))
    if mistakes:
        raise ConfigException("\n".join(mistakes))
    return WorkerConfig(mode, resolved, values, _warnings(resolved, definition))


def _wrong_converters(plugins: Plugins, values: Mapping[str, Any]) -> Iterable[str]:
    for part, interface in _CONVERTERS.items():
        name = f"{part}.converter"
        if values[name] is None:
            continue
        try:
            plugins.require(interface, values[name])
        except (UnknownPlugin, WrongInterface) as wrong:
            yield f"Invalid value {values[name]} for configuration {name}: {wrong}"


def _warnings(properties: Mapping[str, str], definition: ConfigDef) -> list[str]:
    known = {key.name for key in definition.keys}
    warnings = []
    for name in properties:
        if name in _WITHOUT_EFFECT:
            warnings.append(f"{name}: without effect; {_WITHOUT_EFFECT[name]}")
        elif name not in known and name not in _CLIENT_SETTINGS and not name.startswith(_WITH_PARTS):
            # Kafka's words, which people search their logs for.
            warnings.append(f"The configuration '{name}' was supplied but isn't a known config.")
    return warnings


def read_worker_file(file: Path) -> dict[str, str]:
    """Raises ConfigException that names the file, and the line where that helps."""
    try:
        entries = parse_properties(file.read_text(encoding="utf-8"))
    except PropertiesError as wrong:
        raise ConfigException(f"{file}: {wrong}") from None
    except (OSError, UnicodeDecodeError) as failure:
        raise ConfigException(f"{file}: {getattr(failure, 'strerror', None) or 'no text in UTF-8'}") from failure
    return {entry.key: entry.value for entry in entries}
