"""Derives docs/connectors-reference.md from the definitions of connectors, converters, transforms and workers.

Run without arguments to write the page; with --check to learn from the exit code whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from derived_page import write_or_check

from penstock.connect import worker_config
from penstock.connect.config import connector_config
from penstock.connect.config.answer import definition_json
from penstock.connect.config.definition import ConfigKey
from penstock.connect.config.distributed_properties import DISTRIBUTED
from penstock.connect.config.transform_properties import TRANSFORMS
from penstock.connect.connectors.kinds import KINDS as CONNECTORS
from penstock.connect.converters.kinds import HEADER_KINDS
from penstock.connect.converters.kinds import KINDS as CONVERTERS
from penstock.connect.plugins import LoadedPlugin, Plugins, Tables
from penstock.connect.transforms.kinds import KINDS as TRANSFORM_KINDS
from penstock.connect.transforms.kinds import PREDICATE_KINDS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "connectors-reference.md"
INTRODUCTION = """\
# Properties of connectors

<!-- derived by tools/derive_connectors.py from the definitions in src/penstock/connect: edit those, then run
`make connectors` -->

Every property that [Connect](connect.md) accepts. Names, types and defaults are those of Kafka Connect and of the
connectors whose class names are listed; properties that exist only in Penstock are `guarantee`, `format` of the file
connectors, and those that begin with `penstock.`.

`penstock connector plugins NAME` and `GET /connector-plugins/NAME/config` show the same for the plugins of a running
worker, including those of other packages.
"""
ALL_CONNECTORS = """\
## All connectors

A sink needs `topics` or `topics.regex`. `producer.override.*`, `consumer.override.*` and `admin.override.*` set client
settings of one connector, as the worker's `connector.client.config.override.policy` allows.
"""
TRANSFORM_INTRODUCTION = """\
## Transforms

`transforms=a,b` names the transforms of a connector in their order, `transforms.a.type` is the class, and
`transforms.a.PROPERTY` sets a property. `$Key` and `$Value` at the end of a class name choose the part of the record.
Each transform also has:
"""
PREDICATE_INTRODUCTION = """\
## Predicates

`predicates=p` names the predicates of a connector, `predicates.p.type` is the class, and `predicates.p.PROPERTY` sets a
property. `transforms.a.predicate=p` applies a transform to the records that the predicate is true for.
"""
CONVERTER_INTRODUCTION = """\
## Converters

`key.converter`, `value.converter` and `header.converter` name a class, in the worker's properties or in a connector's
configuration; `key.converter.PROPERTY` sets a property. All of them also convert headers, as does
`org.apache.kafka.connect.storage.SimpleHeaderConverter`, the default of `header.converter`.
"""
WORKER_INTRODUCTION = """\
## Workers

Properties of `penstock connect WORKER.properties`. Settings of clients (`security.protocol`, `producer.acks`) go to
the clients of the worker. Secrets may be references such as `${env:NAME}`.
"""


def plugins() -> Plugins:
    """Those of this distribution, whatever is installed beside it."""
    transforms = {name: target for name, target in TRANSFORM_KINDS.items() if name not in PREDICATE_KINDS}
    return Plugins(Tables(CONNECTORS, CONVERTERS, HEADER_KINDS, transforms, PREDICATE_KINDS))


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(keys: Iterable[ConfigKey]) -> str:
    lines = ["| property | type | default | |", "|---|---|---|---|"]
    for key in keys:
        if key.is_internal:
            continue
        shown = definition_json(key)
        default = "**required**" if key.is_required else f"`{shown['default_value']}`"
        default = "" if shown["default_value"] in (None, "") and not key.is_required else default
        lines.append(f"| `{key.name}` | {key.type.value.lower()} | {cell(default)} | {cell(key.doc)} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "No properties of its own.\n"


def by_implementation(kinds: Mapping[str, str]) -> dict[str, list[str]]:
    """Class names of configurations by the class that implements them."""
    found: dict[str, list[str]] = {}
    for name, target in kinds.items():
        found.setdefault(target, []).append(name)
    return found


def connector_section(names: Sequence[str], plugin: LoadedPlugin) -> str:
    parts = [f"## {title(names)}\n", "".join(f"- `{name}`\n" for name in names)]
    if plugin.type == "sink":
        rows = [f"| `{guarantee}` | {need} |" for guarantee, need in plugin.implementation.guarantees.items()]
        parts.append("\n".join(["| guarantee | needs |", "|---|---|", *rows]) + "\n")
    else:
        why = plugin.implementation.exactly_once
        parts.append(f"Exactly-once support: {'yes' if why is None else f'no: {cell(why)}'}.\n")
    return "\n".join([*parts, table(plugin.definition.keys)])


def title(names: Sequence[str]) -> str:
    """`JdbcSinkConnector`, and whose it is where several have this name."""
    simple = names[0].rpartition(".")[2]
    vendors = {"io.confluent": "Confluent", "io.aiven": "Aiven", "io.debezium": "Debezium"}
    known = [vendor for prefix, vendor in vendors.items() if any(name.startswith(prefix) for name in names)]
    return f"{simple} ({', '.join(known)})" if known else simple


def transform_sections(kinds: Mapping[str, str], all_plugins: Plugins, interface: str) -> list[str]:
    by_name: dict[str, list[str]] = {}
    for name in kinds:
        by_name.setdefault(name.partition("$")[0], []).append(name)
    parts = []
    for name, variants in sorted(by_name.items(), key=lambda pair: pair[0].rpartition(".")[2]):
        plugin = all_plugins.load("Predicate" if interface == "Predicate" else "Transformation", variants[0])
        parts += [f"### {name.rpartition('.')[2]}\n", "".join(f"- `{each}`\n" for each in variants)]
        parts.append(table(plugin.definition.keys))
    return parts


def page() -> str:
    all_plugins = plugins()
    common = connector_config.common(all_plugins, None, None).keys
    parts = [INTRODUCTION, ALL_CONNECTORS, table(common)]
    parts += ["### All sinks\n", table(connector_config.SINK.keys)]
    parts += ["### All sources\n", table(connector_config.SOURCE.keys)]
    for names in by_implementation(CONNECTORS).values():
        parts.append(connector_section(names, all_plugins.load("Connector", names[0])))
    parts += [TRANSFORM_INTRODUCTION, table(TRANSFORMS.more)]
    own = {name: target for name, target in TRANSFORM_KINDS.items() if name not in PREDICATE_KINDS}
    parts += transform_sections(own, all_plugins, "Transformation")
    parts += [PREDICATE_INTRODUCTION, *transform_sections(PREDICATE_KINDS, all_plugins, "Predicate")]
    parts.append(CONVERTER_INTRODUCTION)
    for name in CONVERTERS:
        keys = [key for key in all_plugins.load("Converter", name).definition.keys if key.name != "converter.type"]
        parts += [f"### {name.rpartition('.')[2]}\n", f"- `{name}`\n", table(keys)]
    parts += [WORKER_INTRODUCTION, table(worker_config._COMMON.keys)]
    parts += ["### Standalone workers\n", table(worker_config._STANDALONE.keys)]
    parts += ["### Distributed workers\n", table(DISTRIBUTED.keys)]
    parts += ["### Without effect, or not supported\n", unsupported()]
    return "\n".join(parts)


def unsupported() -> str:
    rows = [f"| `{name}` | error | {cell(why)} |" for name, why in worker_config._UNSUPPORTED.items()]
    rows += [f"| `{name}` | warning | {cell(why)} |" for name, why in worker_config._WITHOUT_EFFECT.items()]
    return "\n".join(["| property | | |", "|---|---|---|", *rows]) + "\n"


def main(arguments: Sequence[str]) -> int:
    return write_or_check(
        arguments, PAGE, lambda _present: page(), "the definitions say something else; run make connectors", __doc__
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
