"""Random configurations of Kafka's transforms and predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.connect_differential.transforms.generator import FIELDS, Generator

Make = Callable[[Generator], dict[str, str]]

_TYPES: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")


def _defaults(generator: Generator) -> dict[str, str]:
    return generator.random.choice(({}, {}, {"replace.null.with.default": "false"}))


def _names(generator: Generator, most: int = 3) -> list[str]:
    return generator.random.sample((*FIELDS, "missing"), generator.random.randint(1, most))


def _cast(generator: Generator) -> dict[str, str]:
    if generator.chance(0.1):
        return {"spec": generator.random.choice(("", "a:foo", "int32,a:int8", "a:bytes", "a:b:c", "a:struct"))}
    casts = [f"{name}:{generator.random.choice(_TYPES)}" for name in _names(generator)]
    return {"spec": ",".join(casts), **_defaults(generator)}


def _cast_whole(generator: Generator) -> dict[str, str]:
    return {"spec": generator.random.choice(_TYPES)}


def _insert_field(generator: Generator) -> dict[str, str]:
    names = ["topic.field", "partition.field", "offset.field", "timestamp.field", "static.field"]
    chosen = generator.random.sample(names, generator.random.randint(0 if generator.chance(0.1) else 1, 3))
    fields = generator.random.sample(("a", "new1", "new2!", "new3?", "new4"), len(chosen))
    config = dict(zip(chosen, fields, strict=True))
    # Without a value for the static field, Kafka's message holds an address in memory.
    return {**config, "static.value": "fixed", **_defaults(generator)}


def _replace_field(generator: Generator) -> dict[str, str]:
    config = {}
    if generator.chance(0.5):
        config["exclude"] = ",".join(_names(generator))
    if generator.chance(0.4):
        config["include"] = ",".join(_names(generator, 6))
    if generator.chance(0.6):
        targets = generator.random.sample(("x", "y", "z", "b"), 2)
        renames = [f"{name}:{target}" for name, target in zip(_names(generator, 2), targets, strict=False)]
        config["renames"] = ",".join(renames)
    if generator.chance(0.05):
        config["renames"] = "a"
    if generator.chance(0.05):
        config["exclude"] = "a,a"
    return {**config, **_defaults(generator)}


def _field(generator: Generator) -> str:
    return generator.random.choice((*FIELDS, "missing"))


def _extract_field(generator: Generator) -> dict[str, str]:
    if generator.chance(0.5):
        return {"field": _field(generator), **_defaults(generator)}
    paths = (
        "a",
        "nested.a",
        "nested.b",
        "a.b",
        "`a.b`",
        "`a.b`.c",
        "nested.nested.d",
        "b.",
        "`a",
        "c.d",
        "",
        "`a\\`.b`",
    )
    path = generator.random.choice(paths[:-2] if generator.chance(0.9) else paths)
    if not path:
        path = "e"
    return {"field": path, "field.syntax.version": generator.random.choice(("V2", "v2", "V1")), **_defaults(generator)}


def _header_from(generator: Generator) -> dict[str, str]:
    fields = _names(generator)
    headers = [f"h{index}" for index in range(len(fields))]
    if generator.chance(0.05):
        headers.append("one.more")
    operation = generator.random.choice(("move", "copy"))
    return {"fields": ",".join(fields), "headers": ",".join(headers), "operation": operation, **_defaults(generator)}


def _mask_field(generator: Generator) -> dict[str, str]:
    config = {"fields": ",".join(_names(generator, 5))}
    if generator.chance(0.5):
        config["replacement"] = generator.random.choice(("7", "x", "300", "1", "70000"))
    return {**config, **_defaults(generator)}


def _set_schema_metadata(generator: Generator) -> dict[str, str]:
    config = {}
    if generator.chance(0.7):
        config["schema.name"] = "renamed"
    if generator.chance(0.6):
        config["schema.version"] = generator.random.choice(("7", "7", "7", "x"))
    return {**config, **_defaults(generator)}


_FORMATS: Final = (
    "yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "dd MMM yyyy hh:mm a", "EEEE, d MMMM yy", "HH:mm",
    "D w W u F k K", "yyyy-MM-dd HH:mm:ss zzz", "yyyy-MM-dd'T'HH:mm:ssXXX", "Y-'w'ww", "H:m:s.S",
)  # fmt: skip


def _timestamp_converter(generator: Generator) -> dict[str, str]:
    target = generator.random.choice(("string", "unix", "Date", "Time", "Timestamp"))
    config = {"target.type": target, "field": generator.random.choice((*FIELDS, "when", "when"))}
    if generator.chance(0.9):
        config["format"] = generator.random.choice(_FORMATS)
    if generator.chance(0.4):
        config["unix.precision"] = generator.random.choice(("seconds", "milliseconds", "microseconds", "nanoseconds"))
    return {**config, **_defaults(generator)}


def _timestamp_converter_whole(generator: Generator) -> dict[str, str]:
    return {**_timestamp_converter(generator), "field": ""}


def _insert_header(generator: Generator) -> dict[str, str]:
    return {"header": "h", "value.literal": generator.random.choice(LITERALS)}


LITERALS: Final = (
    "text", "1", "-200", "70000", "5000000000", "99999999999999999999", "1.5", "0.1", "1e50", "1e400", "true", "false",
    "null", "2024-02-29", "12:34:56.789Z", "2024-02-29T12:34:56.789Z", "[1,2,300]", "[1.5, 2]", '["a","b"]',
    '{"a":1,"b":70000}', "{x", "[]", "{}", "[1", "true]", "12 apples", "+5", "-", "a:b", '"quoted"', "[true, false]",
    "1,2", '[ "a" , "b" ]', "1.50", "[1,null]", '{"a" : 1.5}', "2024-13-40", "0", "-0", "0.0",
)  # fmt: skip


def _regex_router(generator: Generator) -> dict[str, str]:
    regex = generator.random.choice(
        (
            "(.*)",
            "([a-z]+)-(\\d+)",
            "(?<first>\\w+)\\.(\\w+)\\.(.*)",
            "x|orders",
            "[^.]+",
            "\\p{Alpha}+",
            "orders(-.*)?",
        )
    )
    replacement = generator.random.choice(
        ("new-$1", "$0", "fixed", "a\\$b", "$1$1", "x${first}", "$12", "$", "pre.$1_post")
    )
    return {"regex": regex, "replacement": replacement}


def _timestamp_router(generator: Generator) -> dict[str, str]:
    formats = ("${topic}-${timestamp}", "${timestamp}", "a.${topic}", "${topic}${topic}", "fixed", "${other}")
    return {"topic.format": generator.random.choice(formats), "timestamp.format": generator.random.choice(_FORMATS)}


def _fields(generator: Generator) -> dict[str, str]:
    return {"fields": ",".join(_names(generator)), **_defaults(generator)}


def _none(_generator: Generator) -> dict[str, str]:
    return {}


CONFIGURATIONS: Final[dict[str, tuple[float, Make]]] = {
    "Cast$Value": (0.9, _cast),
    "Cast$Key": (0.2, _cast_whole),
    "DropHeaders": (0.5, lambda generator: {"headers": generator.random.choice(("h1", "h1,h2", "trace", "no"))}),
    "ExtractField$Value": (0.95, _extract_field),
    "ExtractField$Key": (0.9, _extract_field),
    "Filter": (0.5, _none),
    "Flatten$Value": (0.97, lambda generator: generator.random.choice(({}, {"delimiter": "_"}))),
    "HeaderFrom$Value": (0.95, _header_from),
    "HeaderFrom$Key": (0.95, _header_from),
    "HoistField$Value": (0.5, lambda generator: {"field": _field(generator)}),
    "InsertField$Value": (0.9, _insert_field),
    "InsertField$Key": (0.9, _insert_field),
    "InsertHeader": (0.5, _insert_header),
    "MaskField$Value": (0.95, _mask_field),
    "RegexRouter": (0.5, _regex_router),
    "ReplaceField$Value": (0.9, _replace_field),
    "SetSchemaMetadata$Value": (0.7, _set_schema_metadata),
    "SetSchemaMetadata$Key": (0.7, _set_schema_metadata),
    "TimestampConverter$Value": (0.97, _timestamp_converter),
    "TimestampConverter$Key": (0.3, _timestamp_converter_whole),
    "TimestampRouter": (0.3, _timestamp_router),
    "ValueToKey": (0.95, _fields),
    "predicates.HasHeaderKey": (0.5, lambda generator: {"name": generator.random.choice(("h1", "no", ""))}),
    "predicates.RecordIsTombstone": (0.5, _none),
    "predicates.TopicNameMatches": (
        0.5,
        lambda generator: {"pattern": generator.random.choice(("orders", "orders.*", "(db|x).*", "[a-z.]+", ""))},
    ),
}
"""For each class: the share of structs and maps among keys and values, and what makes a configuration."""
