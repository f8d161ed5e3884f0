"""Generates the source of a straight-line reader for one message in one version.

The reader is a single function: nested structs are read inline, without calls. It trusts no data of a peer. Invariants
of the generated code:

- A length or count is checked against the remaining bytes before anything is sliced, allocated or looped over. A count
  is checked with the smallest possible element, which has at least one byte. The sum of all counts of a message is
  limited too: a struct of three bytes on the wire takes a hundred in memory.
- Fixed-width fields are not checked one by one: a read beyond the buffer raises in `struct` or in indexing, and a read
  beyond the frame is detected at the end of the message. Both become a ProtocolError.
- A known tagged field must have exactly the size that it declares; an unknown one is skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from struct import Struct as Packing
from typing import Any

from penstock.core.errors import ProtocolError
from penstock.core.limits import MESSAGE_ELEMENTS_MAX
from penstock.protocol.generated_source import GeneratedSource
from penstock.protocol.schema import BYTES, RECORDS, STRING, UUID, Field, Message, Primitive, Struct, default_expression
from penstock.protocol.varint import read_unsigned_varint, skip_tagged_fields


def compile_reader(cls: type[Message], version: int) -> Callable[..., Any]:
    return _ReaderSource(cls, version).compiled()


def smallest_size(kind: Primitive | type[Struct], version: int, flexible: bool) -> int:
    """The minimum size of a value of this type on the wire."""
    if isinstance(kind, Primitive):
        return kind.size or (1 if flexible else 2 if kind is STRING else 4)
    size = 1 if flexible else 0
    for field in kind.FIELDS.values():
        if not field.exists_in(version) or field.tag is not None:
            continue
        if field.is_array:
            size += 1 if flexible else 4
        elif field.nullable_in(version) and not isinstance(field.kind, Primitive):
            size += 1
        else:
            size += smallest_size(field.kind, version, flexible and not field.always_legacy)
    return size


def _has_records(cls: type[Struct]) -> bool:
    return any(
        field.kind is RECORDS if isinstance(field.kind, Primitive) else _has_records(field.kind)
        for field in cls.FIELDS.values()
    )


class _ReaderSource:
    """Variables: `b` is the buffer, `p` the position, `n` a length; a struct at depth d is `m<d>`, its array `a<d>`."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self._cls = cls
        self._version = version
        self._flexible = version >= cls.FLEXIBLE_SINCE
        self._source = GeneratedSource()
        for name, value in {
            "new": object.__new__,
            "ProtocolError": ProtocolError,
            "unreadable": (IndexError, struct.error, UnicodeDecodeError),
            "unpack_from": struct.unpack_from,
            "read_unsigned_varint": read_unsigned_varint,
            "skip_tagged_fields": skip_tagged_fields,
        }.items():
            self._source.constant(name, value)

    def compiled(self) -> Callable[..., Any]:
        source, title = self._source, f"{self._cls.__name__} v{self._version}"
        with source.block("def read(b, p, end):"):
            if _has_records(self._cls):
                source.line("if b.__class__ is not memoryview: b = memoryview(b)")
            source.line(f"room = {MESSAGE_ELEMENTS_MAX}")
            with source.block("try:"):
                self._struct(self._cls, "m0", 0)
            with source.block("except unreadable as error:"):
                source.line(f"raise ProtocolError(f'{title}: {{error}}') from error")
            source.line(f"if p > end: raise ProtocolError('{title} is longer than its frame')")
            source.line("return m0, p")
        return source.compile("read", f"{title} reader")

    def _struct(self, cls: type[Struct], target: str, depth: int) -> None:
        """Reads a struct into the local variable `target`."""
        source = self._source
        source.line(f"{target} = new({source.constant(cls.__name__, cls)})")
        fixed: list[tuple[str, Primitive]] = []
        tagged: list[tuple[str, Field]] = []
        for name, field in cls.FIELDS.items():
            if not field.exists_in(self._version) or field.tag is not None:
                source.line(f"{target}.{name} = {default_expression(field, name, source)}")
                if field.exists_in(self._version):
                    tagged.append((name, field))
            elif isinstance(field.kind, Primitive) and field.kind.size and not field.is_array:
                fixed.append((f"{target}.{name}", field.kind))
            else:
                self._fixed_run(fixed)
                self._field(cls, name, field, target, depth)
        self._fixed_run(fixed)
        if self._flexible:
            self._tagged_fields(cls, tagged, target, depth)

    def _fixed_run(self, run: list[tuple[str, Primitive]]) -> None:
        """Reads consecutive fixed-width fields with one call."""
        if run:
            packing = Packing(">" + "".join(kind.format for _, kind in run))
            unpack = self._source.constant("unpack", packing.unpack_from)
            targets = ", ".join(target for target, _ in run)
            self._source.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(b, p)")
            self._source.line(f"p += {packing.size}")
            run.clear()

    def _field(self, cls: type[Struct], name: str, field: Field, owner: str, depth: int) -> None:
        """Reads a field that is not fixed-width."""
        target, path = f"{owner}.{name}", f"{cls.__name__}.{name}"
        nullable = field.nullable_in(self._version)
        if field.is_array:
            self._array(field.kind, target, path, nullable, depth)
        elif isinstance(field.kind, Primitive):
            self._sized(field.kind, target, path, nullable, self._flexible and not field.always_legacy)
        elif nullable:
            # KIP-893: a byte tells whether the struct is null. In a tagged field it is a varint.
            self._source.line("p += 1")
            with self._source.block("if b[p - 1] > 127:" if field.tag is None else "if not b[p - 1]:"):
                self._source.line(f"{target} = None")
            with self._source.block("else:"):
                self._struct(field.kind, f"m{depth + 1}", depth + 1)
                self._source.line(f"{target} = m{depth + 1}")
        else:
            self._struct(field.kind, f"m{depth + 1}", depth + 1)
            self._source.line(f"{target} = m{depth + 1}")

    def _length(self, flexible: bool, legacy_format: str, *, often_two_bytes: bool = False) -> None:
        """Reads a length into `n`, negative for null. The first byte is read inline, the second where it pays off."""
        source = self._source
        if flexible:
            source.line("n = b[p] - 1")
            source.line("p += 1")
            with source.block("if n > 126:"):
                if often_two_bytes:
                    source.line("p += 1")
                    source.line("if b[p - 1] < 128: n += (b[p - 1] - 1) * 128")
                    with source.block("else:"):
                        source.line("n, p = read_unsigned_varint(b, p - 2)")
                        source.line("n -= 1")
                else:
                    source.line("n, p = read_unsigned_varint(b, p - 1)")
                    source.line("n -= 1")
        else:
            packing = Packing(f">{legacy_format}")
            source.line(f"n, = {source.constant('unpack', packing.unpack_from)}(b, p)")
            source.line(f"p += {packing.size}")

    def _sized(self, kind: Primitive, target: str, path: str, nullable: bool, flexible: bool) -> None:
        """Reads a string, bytes or records."""
        source = self._source
        self._length(flexible, "h" if kind is STRING else "i", often_two_bytes=kind is RECORDS)
        with source.block("if n < 0:"):
            source.line(f"{target} = None" if nullable else f"raise ProtocolError('{path} is null')")
        with source.block("else:"):
            source.line("s = p")
            source.line("p += n")
            source.line(f"if p > end: raise ProtocolError('{path} is longer than its frame')")
            value = {STRING: "str(b[s:p], 'utf-8')", BYTES: "bytes(b[s:p])", RECORDS: "b[s:p]"}[kind]
            source.line(f"{target} = {value}")

    def _array(self, kind: Primitive | type[Struct], target: str, path: str, nullable: bool, depth: int) -> None:
        source = self._source
        smallest = smallest_size(kind, self._version, self._flexible)
        assert smallest > 0, f"{path}: a count of elements without bytes could not be bounded"
        self._length(self._flexible, "i")
        with source.block("if n < 0:"):
            source.line(f"{target} = None" if nullable else f"raise ProtocolError('{path} is null')")
        with source.block("else:"):
            source.line(f"if n * {smallest} > end - p: raise ProtocolError('{path} is longer than its frame')")
            self._elements(kind, target, path, depth)

    def _elements(self, kind: Primitive | type[Struct], target: str, path: str, depth: int) -> None:
        """Reads the `n` elements of an array."""
        source, array = self._source, f"a{depth + 1}"
        if isinstance(kind, Primitive) and kind.size:
            source.line("s = p")
            source.line(f"p += {kind.size} * n")
            if kind is UUID:
                source.line(f"{target} = [bytes(b[i : i + 16]) for i in range(s, p, 16)]")
            else:
                source.line(f"{target} = list(unpack_from(f'>{{n}}{kind.format}', b, s))")
            return
        element, left = f"m{depth + 1}", f"left{depth + 1}"
        source.line("room -= n")
        source.line(
            f"if room < 0: raise ProtocolError('{path}: more than {MESSAGE_ELEMENTS_MAX} elements in a message')"
        )
        source.line(f"{target} = {array} = []")
        source.line(f"{left} = n")
        with source.block(f"while {left}:"):  # arrays are mostly short, and a range() costs more than it saves
            source.line(f"{left} -= 1")
            if isinstance(kind, Primitive):
                self._sized(kind, element, path, False, self._flexible)
            else:
                self._struct(kind, element, depth + 1)
            source.line(f"{array}.append({element})")

    def _tagged_fields(self, cls: type[Struct], tagged: list[tuple[str, Field]], owner: str, depth: int) -> None:
        source, tag, limit = self._source, f"tag{depth}", f"limit{depth}"
        source.line("n = b[p]")
        source.line("p += 1")
        with source.block("if n:"):
            if not tagged:
                source.line("p = skip_tagged_fields(b, p - 1, end)")
                return
            source.line("n, p = read_unsigned_varint(b, p - 1)")
            with source.block("for _ in range(n):"):
                source.line(f"{tag}, p = read_unsigned_varint(b, p)")
                source.line("n, p = read_unsigned_varint(b, p)")
                source.line(f"{limit} = p + n")
                source.line(f"if {limit} > end: raise ProtocolError('a tagged field of {cls.__name__} is too long')")
                for index, (name, field) in enumerate(tagged):
                    with source.block(f"{'el' if index else ''}if {tag} == {field.tag}:"):
                        self._tagged_field(cls, name, field, owner, depth)
                        source.line(f"if p != {limit}: raise ProtocolError('{cls.__name__}.{name} is not of its size')")
                source.line(f"else: p = {limit}")

    def _tagged_field(self, cls: type[Struct], name: str, field: Field, owner: str, depth: int) -> None:
        if isinstance(field.kind, Primitive) and field.kind.size and not field.is_array:
            self._fixed_run([(f"{owner}.{name}", field.kind)])
        else:
            self._field(cls, name, field, owner, depth)
