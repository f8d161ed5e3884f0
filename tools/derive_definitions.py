"""Derives src/penstock/protocol/definitions/ from what kio knows of the Kafka protocol.

kio has a dataclass per message and version, with the wire types in the metadata of its fields. Here all versions of a
message become one class with version ranges on its fields. Run without arguments to write the files; with --check to be
told, by the exit code, whether they are what would be written.

Only facts carry over: names, types, versions, tags, defaults. Two of kio's choices are undone. It calls `timeout` what
Kafka calls `timeoutMs`, as its values are durations; ours are plain integers, so the name keeps its unit. It reads the
zero uuid and the time -1 as None; we keep what is on the wire.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import difflib
import importlib
import re
import subprocess
import sys
import tempfile
import typing
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, NoneType, UnionType

from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

DEFINITIONS = Path(__file__).resolve().parent.parent / "src" / "penstock" / "protocol" / "definitions"
HEADERS = ("request_header", "response_header")
DATA = ("consumer_protocol_assignment", "consumer_protocol_subscription", "end_txn_marker")

WIRE_TYPES = {
    "int8": ("INT8", "int"),
    "int16": ("INT16", "int"),
    "int32": ("INT32", "int"),
    "int64": ("INT64", "int"),
    "uint16": ("UINT16", "int"),
    "float64": ("FLOAT64", "float"),
    "bool": ("BOOL", "bool"),
    "uuid": ("UUID", "bytes"),
    "string": ("STRING", "str"),
    "bytes": ("BYTES", "bytes"),
    "records": ("RECORDS", "Records"),
    "error_code": ("INT16", "int"),
    "timedelta_i32": ("INT32", "int"),
    "timedelta_i64": ("INT64", "int"),
    "datetime_i64": ("INT64", "int"),
}
TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")
# Kafka keeps this one a legacy string in flexible versions, so that a broker can read the header of any request.
ALWAYS_LEGACY = {("RequestHeader", "client_id")}


class FieldShape(typing.NamedTuple):
    """A field as one version has it. What differs between versions, apart from `nullable`, is refused."""

    name: str
    wire_type: str
    value_type: str
    is_struct: bool
    is_array: bool
    nullable: bool
    tag: int | None
    default: str  # source text; empty where the type's own default holds


class Occurrence(typing.NamedTuple):
    version: int
    shape: FieldShape


class StructShape:
    """A struct over all versions: its fields in wire order, and where each of them occurs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: list[int] = []
        self.order: list[str] = []
        self.fields: dict[str, list[Occurrence]] = {}

    def add_earlier_version(self, version: int, shapes: list[FieldShape]) -> None:
        self.versions.insert(0, version)
        previous = ""
        for shape in shapes:
            if shape.name not in self.fields:
                self.order.insert(self.order.index(previous) + 1 if previous else 0, shape.name)
            self.fields.setdefault(shape.name, []).insert(0, Occurrence(version, shape))
            previous = shape.name

    def check_order(self, version: int, shapes: list[FieldShape]) -> None:
        expected = [shape.name for shape in shapes]
        present = [name for name in self.order if name in expected]
        if present != expected:
            raise SystemExit(f"{self.name} v{version}: the fields' order {expected} is not that of other versions")


class MessageShape(typing.NamedTuple):
    name: str
    structs: list[StructShape]  # parts before the wholes that use them; the message itself comes last
    versions: list[int]
    flexible_since: int | None


def is_range(versions: list[int]) -> bool:
    return versions == list(range(versions[0], versions[-1] + 1))


def split_union(annotation: object) -> tuple[object, bool]:
    """(the type itself, whether None is allowed beside it)"""
    if typing.get_origin(annotation) not in (UnionType, typing.Union):
        return annotation, False
    (inner,) = [argument for argument in typing.get_args(annotation) if argument is not NoneType]
    return inner, True


def field_shape(field: dataclasses.Field[object], struct_names: dict[str, str]) -> FieldShape:
    inner, nullable = split_union(field.type)
    is_array = typing.get_origin(inner) is tuple
    if is_array:
        inner, _ = split_union(typing.get_args(inner)[0])
    kafka_type = field.metadata.get("kafka_type", "")
    is_struct = dataclasses.is_dataclass(inner)
    if is_struct:
        wire_type = value_type = struct_names[typing.cast(type, inner).__name__]
    else:
        wire_type, value_type = WIRE_TYPES[kafka_type]
    if not is_array and kafka_type in ("uuid", "datetime_i64"):
        nullable = False
    tag = field.metadata.get("tag")
    return FieldShape(
        name=f"{field.name}_ms" if kafka_type in TIMES else field.name,
        wire_type=wire_type,
        value_type=value_type,
        is_struct=is_struct,
        is_array=is_array,
        nullable=nullable,
        tag=tag,
        default=default_text(field, kafka_type, is_tagged_struct=is_struct and not is_array and tag is not None),
    )


def default_text(field: dataclasses.Field[object], kafka_type: str, *, is_tagged_struct: bool) -> str:
    if is_tagged_struct:
        return "None"
    value = field.default
    if value is dataclasses.MISSING:
        return ""
    match value:
        case None if kafka_type == "datetime_i64":
            return "-1"
        case None if kafka_type == "uuid" and typing.get_origin(split_union(field.type)[0]) is not tuple:
            return ""
        case uuid.UUID():
            return "" if value.int == 0 else repr(value.bytes)
        case datetime.timedelta():
            milliseconds = value // datetime.timedelta(milliseconds=1)
            return str(milliseconds) if milliseconds else ""
        case None:
            return "None"
        case bool():
            return "True" if value else ""
        case int():
            return str(int(value)) if value else ""
        case str() | bytes() | float() | tuple():
            return repr(value) if value else ""
    raise SystemExit(f"field {field.name}: no source text is known for the default {value!r}")


def struct_classes(module: ModuleType) -> list[type]:
    """The dataclasses that a module of kio defines, parts first."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__
    ]


def modules(api: str, entity_type: EntityType) -> Iterator[tuple[int, ModuleType]]:
    for version, entities in sorted(schema_name_map[api].items()):
        for found, path in entities.items():
            if found is entity_type:
                yield version, importlib.import_module(path.split(":")[0])


def message_shape(api: str, entity_type: EntityType, struct_names: dict[str, str]) -> MessageShape:
    structs: dict[str, StructShape] = {}
    versions: list[int] = []
    flexible: list[int] = []
    seen: list[tuple[StructShape, int, list[FieldShape]]] = []
    # Newest first: the newest version has nearly every field, and the few others of older ones find their place in it.
    for version, module in sorted(modules(api, entity_type), reverse=True):
        versions.insert(0, version)
        position = 0
        for cls in struct_classes(module):
            if cls.__name__ not in structs:
                items = list(structs.items())
                items.insert(position, (cls.__name__, StructShape(struct_names[cls.__name__])))
                structs = dict(items)
            position = list(structs).index(cls.__name__) + 1
            shapes = [field_shape(field, struct_names) for field in dataclasses.fields(cls)]
            structs[cls.__name__].add_earlier_version(version, shapes)
            seen.append((structs[cls.__name__], version, shapes))
        if struct_classes(module)[-1].__flexible__:  # type: ignore[attr-defined]
            flexible.append(version)
    for struct, version, shapes in seen:
        struct.check_order(version, shapes)
    if not is_range(versions) or (flexible and max(flexible) != versions[-1]):
        raise SystemExit(f"{api}: versions {versions}, of which flexible {flexible}, are not a range")
    ordered = list(structs.values())
    return MessageShape(ordered[-1].name, ordered, versions, min(flexible) if flexible else None)


def field_text(struct: StructShape, name: str) -> str:
    occurrences = struct.fields[name]
    present = [occurrence.version for occurrence in occurrences]
    shape = occurrences[-1].shape
    nullable = [occurrence.version for occurrence in occurrences if occurrence.shape.nullable]
    if not is_range(present) or (nullable and nullable[-1] != present[-1]):
        raise SystemExit(f"{struct.name}.{name}: its versions are not a range")
    if len({occurrence.shape._replace(nullable=False) for occurrence in occurrences}) > 1:
        raise SystemExit(f"{struct.name}.{name}: it changes its type, tag or default between versions")
    arguments = [shape.wire_type]
    if present[0] > struct.versions[0]:
        arguments.append(f"since={present[0]}")
    if present[-1] < struct.versions[-1]:
        arguments.append(f"until={present[-1]}")
    default = shape.default
    if nullable:
        arguments.append(f"nullable_since={nullable[0]}")
        # A field that may always be null is null until told otherwise: an absent message, an absent filter.
        if nullable == present and not default:
            default = "None"
    if shape.tag is not None:
        arguments.append(f"tag={shape.tag}")
    if default:
        arguments.append(f"default={default}")
    if (struct.name, name) in ALWAYS_LEGACY:
        arguments.append("always_legacy=True")
    value_type = f"list[{shape.value_type}]" if shape.is_array else shape.value_type
    if nullable or default == "None":
        value_type += " | None"
    return f"    {name}: {value_type} = {'array_of' if shape.is_array else 'wire'}({', '.join(arguments)})"


def class_text(message: MessageShape, struct: StructShape, api_key: int | None) -> str:
    if struct is message.structs[-1]:
        options = [f"api_key={api_key}"] if api_key is not None else []
        options.append(f"versions=({message.versions[0]}, {message.versions[-1]})")
        if message.flexible_since is not None:
            options.append(f"flexible_since={message.flexible_since}")
        opening = f"class {struct.name}(Message, {', '.join(options)}):"
    else:
        opening = f"class {struct.name}(Struct):"
    return "\n".join([opening, *([field_text(struct, name) for name in struct.order] or ["    pass"])])


def module_text(title: str, messages: list[MessageShape], api_key: int | None) -> str:
    body = "\n\n\n".join(class_text(message, struct, api_key) for message in messages for struct in message.structs)
    words = set(re.findall(r"\w+", body))
    vocabulary = {word for names in WIRE_TYPES.values() for word in names if not word[0].islower()}
    imported = sorted(words & (vocabulary | {"Message", "Struct", "array_of", "wire"}), key=import_order)
    return (
        f'"""{title} Derived by tools/derive_definitions.py."""\n\n'
        "from __future__ import annotations\n\n"
        f"from penstock.protocol.schema import {', '.join(imported)}\n\n\n"
        f"{body}\n"
    )


def import_order(word: str) -> tuple[int, str, int]:
    """Constants, classes, functions, and INT8 before INT16: the order in which ruff wants imported names."""
    letters = word.rstrip("0123456789")
    return (0 if word.isupper() else 1 if word[0].isupper() else 2, letters, int(word[len(letters) :] or 0))


def api_messages(api: str) -> tuple[MessageShape, MessageShape]:
    """Request and response share a module, so a struct's name that both use tells whose it is."""
    names = {
        entity_type: {cls.__name__ for _, module in modules(api, entity_type) for cls in struct_classes(module)}
        for entity_type in (EntityType.request, EntityType.response)
    }
    shared = names[EntityType.request] & names[EntityType.response]
    request, response = (
        message_shape(
            api, entity_type, {name: f"{prefix}{name}" if name in shared else name for name in names[entity_type]}
        )
        for entity_type, prefix in ((EntityType.request, "Request"), (EntityType.response, "Response"))
    )
    if request.versions != response.versions or request.flexible_since != response.flexible_since:
        raise SystemExit(f"{api}: request and response do not have the same versions")
    return request, response


def index_text(apis: dict[int, tuple[str, MessageShape, MessageShape]]) -> str:
    lines = []
    for key, (api, request, response) in apis.items():
        flexible = "NEVER" if request.flexible_since is None else str(request.flexible_since)
        versions = f"{request.versions[0]}, {request.versions[-1]}, {flexible}"
        lines.append(f'    {key}: Api({key}, "{api}", "{request.name}", "{response.name}", {versions}),')
    return (
        '"""Every API by its key, without importing any of their messages. '
        'Derived by tools/derive_definitions.py."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Final\n\n"
        "from penstock.protocol.schema import NEVER, Api\n\n"
        "# key, module of this package, request, response, first version, last version, first flexible version\n"
        "APIS: Final[dict[int, Api]] = {\n" + "\n".join(lines) + "\n}\n"
    )


def derive() -> dict[str, str]:
    """File name -> text, as it comes before formatting."""
    files = {}
    apis = {}
    for key, api in sorted(api_key_map.items()):
        request, response = api_messages(api)
        apis[key] = (api, request, response)
        files[f"{api}.py"] = module_text(f"The messages of {api}, API key {key}.", [request, response], key)
    for name, entity_type in [(name, EntityType.header) for name in HEADERS] + [
        (name, EntityType.data) for name in DATA
    ]:
        names = {
            cls.__name__: cls.__name__ for _, module in modules(name, entity_type) for cls in struct_classes(module)
        }
        files[f"{name}.py"] = module_text(f"The message {name}.", [message_shape(name, entity_type, names)], None)
    files["index.py"] = index_text(apis)
    return files


def write_formatted(files: dict[str, str], directory: Path) -> None:
    for name, text in files.items():
        (directory / name).write_text(text)
    ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--line-length", "120", "--target-version", "py311"]
    subprocess.run([*ruff, *(str(directory / name) for name in files)], check=True)


def differences(expected: dict[str, str], present: dict[str, str]) -> Iterator[str]:
    for name in sorted(expected.keys() | present.keys()):
        if name not in present:
            yield f"{name}: missing"
        elif name not in expected:
            yield f"{name}: not derived from anything"
        elif expected[name] != present[name]:
            diff = list(difflib.unified_diff(present[name].splitlines(), expected[name].splitlines(), lineterm="", n=0))
            yield f"{name}: differs"
            yield from (f"    {line}" for line in diff[2:12])


def read_files(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.glob("*.py") if path.name != "__init__.py"}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Derives the message definitions from kio's metadata.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the files are not as derived")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        write_formatted(derive(), Path(temporary))
        expected = read_files(Path(temporary))
    found = list(differences(expected, read_files(DEFINITIONS)))
    if options.check:
        if found:
            print("\n".join(["The definitions are not what kio gives; run make definitions.", *found]))
        return 1 if found else 0
    for stale in read_files(DEFINITIONS).keys() - expected.keys():
        (DEFINITIONS / stale).unlink()
    for name, text in expected.items():
        (DEFINITIONS / name).write_text(text)
    print(
        f"{len(expected)} definitions in {DEFINITIONS.name}/, {sum(not line.startswith(' ') for line in found)} changed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
