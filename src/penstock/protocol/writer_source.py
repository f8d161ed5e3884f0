"""Generates the source of a straight-line writer for one message in one version.

The values are our own: a value that the version cannot represent (null in a field that is not nullable, an integer that
is too large) is a bug, and raises Python's exception. Fields that the version does not have are omitted, so that a
handler fills a response once for all versions. A tagged field is omitted when it has its default.

A splicing writer omits the records as well: it writes their length and records where their bytes belong. So a fetch
sends records from the file to the socket without copying them into Python's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Packing
from struct import pack
from typing import Any

from penstock.protocol.generated_source import GeneratedSource
from penstock.protocol.schema import IMPLICIT, RECORDS, STRING, UUID, Field, Message, Primitive, Struct
from penstock.protocol.varint import write_unsigned_varint


def compile_writer(cls: type[Message], version: int, *, splicing: bool) -> Callable[..., Any]:
    return _WriterSource(cls, version, splicing).compiled()


class _WriterSource:
    """Variables: `o` is the output, `n` a length, `v` a value of variable size; a struct at depth d is `m<d>`."""

    def __init__(self, cls: type[Message], version: int, splicing: bool) -> None:
        self._cls = cls
        self._version = version
        self._splicing = splicing
        self._flexible = version >= cls.FLEXIBLE_SINCE
        self._output = "o"
        self._source = GeneratedSource()
        self._source.constant("pack", pack)
        self._source.constant("write_unsigned_varint", write_unsigned_varint)

    def compiled(self) -> Callable[..., Any]:
        with self._source.block(f"def write(o, m0{', splices' if self._splicing else ''}):"):
            if not self._flexible and not any(field.exists_in(self._version) for field in self._cls.FIELDS.values()):
                self._source.line("pass")
            self._struct(self._cls, "m0", 0)
        return self._source.compile("write", f"{self._cls.__name__} v{self._version} writer")

    def _struct(self, cls: type[Struct], owner: str, depth: int) -> None:
        run = _FixedRun()
        tagged: list[tuple[str, Field]] = []
        for name, field in cls.FIELDS.items():
            if not field.exists_in(self._version):
                continue
            if field.tag is not None:
                tagged.append((name, field))
            elif isinstance(field.kind, Primitive) and field.kind.size and not field.is_array:
                run.add(field.kind.format, f"{owner}.{name}")
            else:
                self._fixed_run(run)
                self._field(field, f"{owner}.{name}", depth)
        if self._flexible and not tagged:
            run.add("x", "")  # no tagged fields: a zero byte, as a pad byte of struct
        self._fixed_run(run)
        if tagged:
            self._tagged_fields(tagged, owner, depth)

    def _fixed_run(self, run: _FixedRun) -> None:
        """Writes consecutive fixed-width fields with one call."""
        if run.values:
            packer = self._source.constant("pack_run", Packing(f">{run.format}").pack)
            self._source.line(f"{self._output} += {packer}({', '.join(run.values)})")
        elif run.format:
            self._source.line(f"{self._output}.append(0)")
        run.clear()

    def _field(self, field: Field, value: str, depth: int) -> None:
        """Writes a field that is not fixed-width."""
        source, nullable = self._source, field.nullable_in(self._version)
        if not isinstance(field.kind, Primitive) and not field.is_array:
            source.line(f"m{depth + 1} = {value}")
            if nullable:
                # KIP-893: a byte tells whether the struct is null. In a tagged field it is a varint.
                with source.block(f"if m{depth + 1} is None:"):
                    source.line(f"{self._output}.append({255 if field.tag is None else 0})")
                with source.block("else:"):
                    source.line(f"{self._output}.append(1)")
                    self._struct(field.kind, f"m{depth + 1}", depth + 1)
            else:
                self._struct(field.kind, f"m{depth + 1}", depth + 1)
            return
        flexible = self._flexible and not field.always_legacy
        length_format = "h" if field.kind is STRING and not field.is_array else "i"
        source.line(f"v = {value}")
        if not nullable:
            self._not_null(field, flexible, length_format, depth)
            return
        with source.block("if v is None:"):
            null = "b'\\x00'" if flexible else repr(Packing(f">{length_format}").pack(-1))
            source.line(f"{self._output} += {null}")
        with source.block("else:"):
            self._not_null(field, flexible, length_format, depth)

    def _not_null(self, field: Field, flexible: bool, length_format: str, depth: int) -> None:
        if field.is_array:
            self._length(flexible, length_format)
            self._elements(field.kind, depth)
        else:
            assert isinstance(field.kind, Primitive)
            self._sized(field.kind, flexible, length_format)

    def _length(self, flexible: bool, legacy_format: str) -> None:
        """Writes the length of `v`."""
        source = self._source
        if flexible:
            source.line("n = len(v) + 1")
            source.line(f"if n < 128: {self._output}.append(n)")
            source.line(f"else: write_unsigned_varint({self._output}, n)")
        else:
            packer = source.constant("pack_length", Packing(f">{legacy_format}").pack)
            source.line(f"{self._output} += {packer}(len(v))")

    def _sized(self, kind: Primitive, flexible: bool, length_format: str) -> None:
        """Writes `v`, a string, bytes or records."""
        if kind is STRING:
            self._source.line("v = v.encode()")
        self._length(flexible, length_format)
        if kind is RECORDS and self._splicing:
            self._source.line("splices.append((len(o), v))")
        else:
            self._source.line(f"{self._output} += v")

    def _elements(self, kind: Primitive | type[Struct], depth: int) -> None:
        """Writes the elements of the array `v`."""
        source, element = self._source, f"m{depth + 1}"
        if kind is UUID:
            source.line(f"{self._output} += b''.join(v)")
        elif isinstance(kind, Primitive) and kind.size:
            source.line(f"{self._output} += pack(f'>{{len(v)}}{kind.format}', *v)")
        elif isinstance(kind, Primitive):
            with source.block(f"for {element} in v:"):
                source.line(f"v = {element}")
                self._sized(kind, self._flexible, "h" if kind is STRING else "i")
        else:
            with source.block(f"for {element} in v:"):
                self._struct(kind, element, depth + 1)

    def _tagged_fields(self, tagged: list[tuple[str, Field]], owner: str, depth: int) -> None:
        """The count comes first, so fields that differ from their defaults are collected before it is written."""
        source, count, section = self._source, f"count{depth}", f"section{depth}"
        conditions = {name: self._is_set(field, f"{owner}.{name}") for name, field in tagged}
        with source.block(f"if {' or '.join(conditions.values())}:"):
            source.line(f"{count} = 0")
            source.line(f"{section} = bytearray()")
            for name, field in sorted(tagged, key=lambda item: item[1].tag or 0):
                with source.block(f"if {conditions[name]}:"):
                    self._tagged_field(name, field, owner, depth)
                    source.line(f"{count} += 1")
                    source.line(f"write_unsigned_varint({section}, {field.tag})")
                    source.line(f"write_unsigned_varint({section}, len(tagged{depth}))")
                    source.line(f"{section} += tagged{depth}")
            source.line(f"write_unsigned_varint({self._output}, {count})")
            source.line(f"{self._output} += {section}")
        source.line(f"else: {self._output}.append(0)")

    def _tagged_field(self, name: str, field: Field, owner: str, depth: int) -> None:
        assert field.kind is not RECORDS, "a splice inside a tagged field would have no position of its own"
        whole, self._output = self._output, f"tagged{depth}"
        self._source.line(f"{self._output} = bytearray()")
        if isinstance(field.kind, Primitive) and field.kind.size and not field.is_array:
            self._fixed_run(_FixedRun(field.kind.format, [f"{owner}.{name}"]))
        else:
            self._field(field, f"{owner}.{name}", depth)
        self._output = whole

    def _is_set(self, field: Field, value: str) -> str:
        """A condition: the tagged field differs from its default."""
        if field.nullable_in(self._version) and not isinstance(field.kind, Primitive) and not field.is_array:
            return "True"  # Kafka's default is an empty struct: null must be said
        if field.default is None:
            return f"{value} is not None"
        if field.is_array:
            return f"({value} is None or {value})" if field.nullable_in(self._version) else value
        default = field.kind.zero if field.default is IMPLICIT and isinstance(field.kind, Primitive) else field.default
        return f"{value} != {self._source.constant('default', default)}"


class _FixedRun:
    """Fixed-width fields that are packed by one call."""

    def __init__(self, format_: str = "", values: list[str] | None = None) -> None:
        self.format = format_
        self.values = values or []

    def add(self, format_: str, value: str) -> None:
        self.format += format_
        if value:
            self.values.append(value)

    def clear(self) -> None:
        self.format, self.values = "", []
