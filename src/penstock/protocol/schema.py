"""The schema language of `definitions/`, which declares the protocol's messages as data.

A message is one class for all of its versions; `wire(...)` declares the type of a field and the versions that have it.
This module owns the classes in memory: slots, a keyword-only constructor in which every field has a default, equality
by value. It knows no bytes: `codec.py` compiles a class and a version into a reader and a writer.

In memory: integers and error codes are `int`, UUIDs are 16 raw bytes, arrays are lists, null is None. A field that a
version does not have is read as its default and is not written. A tagged struct is None when its tag is absent.

Invariant: importing a definition compiles nothing; a constructor is compiled for the first instance. Dataclasses would
cost 0.3 ms each at import, and a starting broker uses a hundred of these classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, dataclass_transform

from penstock.protocol.generated_source import GeneratedSource

# Records are read as a memoryview of the frame and written from any bytes-like object; spliced ones only need a length.
Records: TypeAlias = Any


class Primitive(NamedTuple):
    """A primitive type. A fixed-width one has a struct `format`; the others are prefixed with their length."""

    name: str
    format: str
    size: int
    zero: object


INT8: Final = Primitive("INT8", "b", 1, 0)
INT16: Final = Primitive("INT16", "h", 2, 0)
INT32: Final = Primitive("INT32", "i", 4, 0)
INT64: Final = Primitive("INT64", "q", 8, 0)
UINT16: Final = Primitive("UINT16", "H", 2, 0)
FLOAT64: Final = Primitive("FLOAT64", "d", 8, 0.0)
BOOL: Final = Primitive("BOOL", "?", 1, False)
UUID: Final = Primitive("UUID", "16s", 16, bytes(16))
STRING: Final = Primitive("STRING", "", 0, "")
BYTES: Final = Primitive("BYTES", "", 0, b"")
RECORDS: Final = Primitive("RECORDS", "", 0, b"")

VERSION_MAX: Final = 0x7FFF
NEVER: Final = VERSION_MAX + 1


class _Implicit:
    """The type of `IMPLICIT`: without an explicit default, the type's own applies (zero, empty, or a new struct)."""

    def __repr__(self) -> str:
        return "IMPLICIT"


IMPLICIT: Final = _Implicit()


class Field(NamedTuple):
    """A field of a struct. Both ends of a version range are inclusive."""

    kind: Primitive | type[Struct]
    is_array: bool
    since: int
    until: int
    nullable_since: int
    tag: int | None
    default: Any
    always_legacy: bool

    def exists_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        return version >= self.nullable_since


def wire(
    kind: Primitive | type[Struct],
    *,
    since: int = 0,
    until: int = VERSION_MAX,
    nullable_since: int = NEVER,
    tag: int | None = None,
    default: object = IMPLICIT,
    always_legacy: bool = False,
) -> Any:
    """Declares a field. `always_legacy` keeps the length prefix of non-flexible versions in flexible ones."""
    return Field(kind, False, since, until, nullable_since, tag, default, always_legacy)


def array_of(
    kind: Primitive | type[Struct],
    *,
    since: int = 0,
    until: int = VERSION_MAX,
    nullable_since: int = NEVER,
    tag: int | None = None,
    default: object = IMPLICIT,
) -> Any:
    """Declares an array field; null, where allowed, is a null array. Elements are never null."""
    return Field(kind, True, since, until, nullable_since, tag, default, False)


class _StructType(type):
    """Converts the declared fields of a class into slots."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: object) -> _StructType:
        fields = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        for key in fields:
            del namespace[key]
        namespace["__slots__"] = tuple(fields)
        namespace["FIELDS"] = fields
        return super().__new__(mcs, name, bases, namespace, **options)


@dataclass_transform(kw_only_default=True)
class Struct(metaclass=_StructType):
    """A part of a message."""

    FIELDS: ClassVar[dict[str, Field]]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.FIELDS)})"


class Message(Struct):
    """A request, response, header or data message, with the supported versions."""

    API_KEY: ClassVar[int | None]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE_SINCE: ClassVar[int]

    def __init_subclass__(
        cls, *, versions: tuple[int, int], flexible_since: int | None = None, api_key: int | None = None
    ) -> None:
        cls.API_KEY = api_key
        cls.VERSIONS = versions
        cls.FLEXIBLE_SINCE = NEVER if flexible_since is None else flexible_since


class Api(NamedTuple):
    """An entry of `definitions/index.py`: an API without its messages, which are imported on demand."""

    key: int
    name: str
    request: str
    response: str
    min_version: int
    max_version: int
    flexible_since: int


def default_expression(field: Field, name: str, source: GeneratedSource) -> str:
    """An expression for the field's default; it creates a new object for mutable ones."""
    if field.default is not IMPLICIT:
        return source.constant(f"default_{name}", field.default)
    if field.is_array:
        return "[]"
    if isinstance(field.kind, Primitive):
        return source.constant(f"default_{name}", field.kind.zero)
    return source.constant(field.kind.__name__, field.kind) + "()"


def _compile_constructor(cls: type[Struct]) -> Any:
    source = GeneratedSource()
    source.constant("IMPLICIT", IMPLICIT)
    parameters, assignments = [], []
    for name, field in cls.FIELDS.items():
        default = default_expression(field, name, source)
        if default.endswith(("[]", "()")):
            parameters.append(f"{name}=IMPLICIT")
            assignments.append(f"self.{name} = {default} if {name} is IMPLICIT else {name}")
        else:
            parameters.append(f"{name}={default}")
            assignments.append(f"self.{name} = {name}")
    with source.block(f"def __init__({', '.join(['self', '*', *parameters] if parameters else ['self'])}):"):
        for assignment in assignments or ["pass"]:
            source.line(assignment)
    return source.compile("__init__", f"{cls.__name__} constructor")
