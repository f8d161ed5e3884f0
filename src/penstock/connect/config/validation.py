"""The check of a whole configuration, which collects all mistakes, and its answer in Kafka Connect's form.

`PUT /connector-plugins/NAME/config/validate` shows the answer; a connector is created only if it has no errors. The
configuration that is checked has its references to secrets resolved; the answer shows the references.

Owns the check. It must not know REST, nor run a connector.

Invariants:
- No text of the answer contains a value that came from a config provider.
- A property that is neither defined nor an override is in `warnings`: none is ignored silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from penstock.connect.config import connector_config as common
from penstock.connect.config.answer import ConfigValue, Validation, default_of, definition_json
from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType
from penstock.connect.config.overrides import overrides, refusal
from penstock.connect.config.parsing import invalid, parse_value
from penstock.connect.config.topic_creation import topic_creation_keys
from penstock.connect.config.transform_properties import PREDICATES, TRANSFORMS, enriched
from penstock.connect.config.unknown_properties import unknown_properties
from penstock.connect.plugins import BrokenPlugin, Interface, LoadedPlugin, Plugins, UnknownPlugin, WrongInterface

_CONVERTERS: Final[tuple[tuple[str, Interface], ...]] = (
    ("header", "HeaderConverter"),
    ("key", "Converter"),
    ("value", "Converter"),
)
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")
_SECRET_LENGTH_MIN: Final = 4

Resolve = Callable[[str], str]
"""A value with its references (`${file:path:key}`) resolved. Raises ConfigException."""


class BadRequest(Exception):
    """The configuration names no connector that could check it. Kafka Connect answers with status 400 or 500."""


def plugin_definitions(plugins: Plugins, name: str) -> list[dict[str, Any]]:
    """`GET /connector-plugins/NAME/config`. Raises UnknownPlugin, BrokenPlugin."""
    plugin = plugins.find(name)
    keys = list(plugin.definition.keys)
    if plugin.type in ("source", "sink"):
        own = {key.name for key in keys}
        of_all = common.common(plugins, None, plugin) + (common.SOURCE if plugin.type == "source" else common.SINK)
        keys += [key for key in of_all.keys if key.name not in own]
    return [definition_json(key) for key in keys]


def connector_class(plugins: Plugins, config: Mapping[str, str]) -> LoadedPlugin:
    """Raises BadRequest with Kafka Connect's text."""
    name = config.get("connector.class")
    if name is None:
        listed = ", ".join(f"{key}={value}" for key, value in sorted(config.items()) if key in ("name", "topic"))
        raise BadRequest(f"Connector config {{{listed}}} contains no connector type")
    try:
        return plugins.load("Connector", name.strip())
    except (UnknownPlugin, WrongInterface):
        available = ", ".join(plugins.names("Connector"))
        raise BadRequest(
            "Failed to find any class that implements Connector and which name matches"
            f" {name}, available connectors are: {available}"
        ) from None
    except BrokenPlugin as broken:
        raise BadRequest(str(broken)) from None


def validate(
    plugins: Plugins,
    config: Mapping[str, str],
    worker: WorkerDefaults,
    resolve: Resolve = lambda text: text,
    *,
    asks_connector: bool = True,
) -> Validation:
    """Everything that is wrong with a connector's configuration. Raises BadRequest if its class is missing.

    The connector's own check may open connections; `asks_connector=False` leaves it out.
    """
    plugin = connector_class(plugins, config)
    resolved, unresolved = _resolved(config, resolve)
    definition = _definition(plugins, plugin, worker, resolved)
    values = validate_all(definition, resolved)
    _name_classes(plugins, definition, values)
    _hide_version_of_missing_converters(values)
    by_name = {value.name: value for value in values}
    (_check_source if plugin.type == "source" else _check_sink)(plugin, worker, resolved, by_name)
    entries: list[tuple[ConfigKey | None, ConfigValue]] = list(zip(definition.keys, values, strict=True))
    entries += _override_entries(worker, resolved)
    for part, interface in _CONVERTERS:
        entries += _converter_entries(plugins, resolved, part, interface)
    if asks_connector and not unresolved and not any(value.errors for _key, value in entries):
        # A connector checks configurations that parse; half of one could only repeat what is wrong already.
        _ask_connector(plugin, resolved, entries)
    defined = {value.name for _key, value in entries}
    prefixes: tuple[str, ...] = plugin.implementation.prefixes
    warnings = [
        *unknown_properties(config, defined, prefixes),
        *_undeclared_predicates(by_name),
        *_idle_overrides(config),
    ]
    if not worker.topic_creation_enabled:
        warnings += [
            f"{name}: has no effect, because the worker has topic.creation.enable=false"
            for name in config
            if name.startswith("topic.creation.")
        ]
    return _concealed(Validation(config["connector.class"], entries, warnings), config, resolved, unresolved, resolve)


def _definition(plugins: Plugins, plugin: LoadedPlugin, worker: WorkerDefaults, config: Mapping[str, str]) -> ConfigDef:
    of_all = common.common(plugins, worker, plugin) + (common.SOURCE if plugin.type == "source" else common.SINK)
    keys = [_with_version_of_converter(plugins, key, worker, config) for key in of_all.keys]
    for kind in (TRANSFORMS, PREDICATES):
        aliases = parse_value(ConfigKey(kind.property, ConfigType.LIST), config.get(kind.property)) or []
        keys += enriched(kind, plugins, config, aliases)
    if plugin.type == "source":
        keys += topic_creation_keys(config)
    taken = {key.name for key in keys}
    # Where a connector defines a common property too, the common definition wins, as in Kafka Connect.
    return ConfigDef((*keys, *(key for key in plugin.definition.keys if key.name not in taken)))


def _with_version_of_converter(
    plugins: Plugins, key: ConfigKey, worker: WorkerDefaults, config: Mapping[str, str]
) -> ConfigKey:
    part, converter, rest = key.name.partition(".converter.plugin.version")
    if not converter or rest:
        return key
    default = {"key": worker.key_converter, "value": worker.value_converter, "header": worker.header_converter}[part]
    version = _version(plugins, dict(_CONVERTERS)[part], config.get(f"{part}.converter", default))
    return replace(
        key,
        default=version,
        recommender=common.versions(version),
        validator=common.has_version(version),
    )


def _version(plugins: Plugins, interface: Interface, converter: str | None) -> str | None:
    try:
        return None if converter is None else plugins.load(interface, converter).version
    except (UnknownPlugin, WrongInterface, BrokenPlugin):
        return None


def _name_classes(plugins: Plugins, definition: ConfigDef, values: Sequence[ConfigValue]) -> None:
    """An alias is shown as the class that it stands for."""
    for key, value in zip(definition.keys, values, strict=True):
        if key.type is ConfigType.CLASS and value.value is not None:
            with suppress(UnknownPlugin):
                value.value = plugins.resolve(value.value)


def _hide_version_of_missing_converters(values: Sequence[ConfigValue]) -> None:
    by_name = {value.name: value for value in values}
    for part, _interface in _CONVERTERS:
        if by_name[f"{part}.converter"].value is None and by_name[f"{part}.converter"].errors:
            by_name[f"{part}.converter.plugin.version"].is_visible = False


def validate_all(definition: ConfigDef, config: Mapping[str, str]) -> list[ConfigValue]:
    """ConfigDef.validate: a value for each definition, with all of its errors."""
    values = [_validated(key, config) for key in definition.keys]
    parsed = {value.name: value.value for value in values}
    for key, value in zip(definition.keys, values, strict=True):
        if key.recommender is not None:
            value.recommended = key.recommender(key.name, parsed)
    return values


def _validated(key: ConfigKey, config: Mapping[str, str]) -> ConfigValue:
    result = ConfigValue(key.name)
    if key.name in config:
        try:
            result.value = parse_value(key, config[key.name])
        except ConfigException as wrong:
            result.errors.append(str(wrong))
    elif key.is_required:
        result.errors.append(f'Missing required configuration "{key.name}" which has no default value.')
    else:
        result.value = default_of(key)
    _apply_validator(key, result)
    return result


def _apply_validator(key: ConfigKey, result: ConfigValue) -> None:
    if key.validator is None:
        return
    try:
        key.validator(key.name, result.value)
    except UnknownPlugin as unknown:
        # A class that does not exist is a value that does not parse: it is shown as null.
        result.errors.append(str(invalid(key.name, result.value, str(unknown))))
        result.value = None
    except ConfigException as wrong:
        result.errors.append(str(wrong))
    except (TypeError, AttributeError):
        # A validator that cannot take null sees one only here, and only after another error.
        if not result.errors:
            raise


# What definitions cannot say


def _check_sink(
    plugin: LoadedPlugin, _worker: WorkerDefaults, config: Mapping[str, str], values: Mapping[str, ConfigValue]
) -> None:
    from penstock.connect.transforms.java_regex import compile_java

    topics, pattern = values["topics"], values["topics.regex"]
    if topics.errors or pattern.errors:
        return
    if bool(topics.value) == bool(pattern.value):
        both = "topics and topics.regex are mutually exclusive options, but both are set."
        for each in (topics, pattern):
            each.errors.append(both if topics.value else "Must configure one of topics or topics.regex")
        return
    dead_letters = (config.get("errors.deadletterqueue.topic.name") or "").strip()
    if dead_letters and dead_letters in (topics.value or ()):
        topics.errors.append(
            f"The DLQ topic '{dead_letters}' may not be included in the list of topics"
            f" ('topics=[{', '.join(topics.value)}]') consumed by the connector"
        )
    if dead_letters and pattern.value and compile_java(pattern.value).fullmatch(dead_letters):
        pattern.errors.append(
            f"The DLQ topic '{dead_letters}' may not be matched by the regex for the topics"
            f" ('topics.regex={pattern.value}') consumed by the connector"
        )
    guarantee = values[common.GUARANTEE]
    kept = plugin.implementation.guarantees
    if not guarantee.errors and guarantee.value not in kept:
        known = ", ".join(kept)
        guarantee.errors.append(f"{plugin.class_name} cannot keep {guarantee.value}; it can keep {known}")


def _check_source(
    plugin: LoadedPlugin, worker: WorkerDefaults, _config: Mapping[str, str], values: Mapping[str, ConfigValue]
) -> None:
    support, boundary = values["exactly.once.support"], values["transaction.boundary"]
    if not support.errors and support.value.upper() == "REQUIRED":
        reason = plugin.implementation.exactly_once
        if not worker.exactly_once_source:
            support.errors.append(
                "This worker does not have exactly-once source support enabled:"
                " set exactly.once.source.support=enabled in its properties"
            )
        elif reason is not None:
            support.errors.append(
                f"The connector does not support exactly-once semantics with the provided configuration: {reason}"
            )
    if not boundary.errors and boundary.value.upper() == "CONNECTOR":
        boundary.errors.append(
            "The connector does not support connector-defined transaction boundaries with the given configuration."
            " Please reconfigure it to use a different transaction boundary definition."
        )


def _ask_connector(
    plugin: LoadedPlugin, config: Mapping[str, str], entries: list[tuple[ConfigKey | None, ConfigValue]]
) -> None:
    by_name = {value.name: value for _key, value in entries}
    for wrong in plugin.implementation.check(config):
        name = wrong.name or "connector.class"
        if name not in by_name:
            by_name[name] = ConfigValue(name, config.get(name))
            entries.append((None, by_name[name]))
        by_name[name].errors.append(str(wrong))


def _override_entries(
    worker: WorkerDefaults, config: Mapping[str, str]
) -> Iterable[tuple[ConfigKey | None, ConfigValue]]:
    for name, value in overrides(config).items():
        why = refusal(worker.override_policy, worker.override_allowlist, name)
        yield None, ConfigValue(name, value, errors=[] if why is None else [why])


def _converter_entries(
    plugins: Plugins, config: Mapping[str, str], part: str, interface: Interface
) -> Iterable[tuple[ConfigKey | None, ConfigValue]]:
    """The properties of a converter that the connector chooses itself; those of the worker are the worker's."""
    prefix = f"{part}.converter."
    try:
        plugin = plugins.load(interface, config.get(prefix[:-1], "").strip())
    except (UnknownPlugin, WrongInterface, BrokenPlugin):
        return
    own = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
    values = validate_all(plugin.definition, {**own, "converter.type": part})
    for key, value in zip(plugin.definition.keys, values, strict=True):
        yield (
            replace(key, name=prefix + key.name, display_name=key.display_name or key.name),
            replace(value, name=prefix + value.name),
        )


def _idle_overrides(config: Mapping[str, str]) -> list[str]:
    from penstock.connect.runtime.client_settings import without_effect

    return [f"{name}: has no effect, because connectors here use no such client" for name in without_effect(config)]


def _undeclared_predicates(values: Mapping[str, ConfigValue]) -> list[str]:
    """Kafka Connect accepts them, and the connector's tasks fail."""
    declared = values["predicates"].value or ()
    used = ((name, value.value) for name, value in values.items() if name.startswith("transforms."))
    return [
        f"{name}: no predicate is called '{value}'; declare it in predicates"
        for name, value in used
        if name.endswith(".predicate") and value and value not in declared
    ]


# Secrets


def _resolved(config: Mapping[str, str], resolve: Resolve) -> tuple[dict[str, str], dict[str, str]]:
    """The configuration with secrets, and why the properties that are missing in it could not be resolved."""
    resolved, unresolved = {}, {}
    for name, value in config.items():
        try:
            resolved[name] = resolve(value)
        except ConfigException as wrong:
            unresolved[name] = str(wrong)
            resolved[name] = value
    return resolved, unresolved


def _concealed(
    validation: Validation,
    config: Mapping[str, str],
    resolved: Mapping[str, str],
    unresolved: Mapping[str, str],
    resolve: Resolve,
) -> Validation:
    secrets = _secrets(config, resolved, unresolved, resolve)
    for _key, value in validation.entries:
        if value.name in unresolved:
            value.value = config[value.name]
            value.errors[:] = [unresolved[value.name]]
        elif value.name in config and resolved[value.name] != config[value.name]:
            value.value = None if value.value is None else config[value.name]
            value.errors[:] = [error.replace(resolved[value.name], config[value.name]) for error in value.errors]
        for secret, reference in secrets:
            value.errors[:] = [error.replace(secret, reference) for error in value.errors]
    return validation


def _secrets(
    config: Mapping[str, str], resolved: Mapping[str, str], unresolved: Mapping[str, str], resolve: Resolve
) -> list[tuple[str, str]]:
    """What came from config providers, with its reference: whole values and parts of values, the longest first."""
    found = {}
    for name, text in config.items():
        if name not in unresolved and resolved[name] != text:
            found[resolved[name]] = text
            found |= {resolve(reference): reference for reference in _REFERENCE.findall(text)}
    # A secret of three letters is none, and would be found in words.
    return sorted(((secret, text) for secret, text in found.items() if len(secret) >= _SECRET_LENGTH_MIN), key=_longest)


def _longest(pair: tuple[str, str]) -> int:
    return -len(pair[0])
