"""Envelopes: `{"schema": ..., "payload": ...}`, sorted by the bytes of their schemas.

Records with the same schema usually begin with the same bytes, up to the payload. Such a beginning is read once, and of
the other records only the payload.

Owns envelopes. It must not know what schemas and payloads mean.

Invariant: a record counts as one that begins so only if nothing but one JSON value and a brace follows; `Prefixed` says
what is to be checked yet.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connect.converters.json import jackson
from penstock.connect.converters.json.jackson import MALFORMED, Malformed
from penstock.connect.converters.json.reading import DataError

_NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields.'
    " If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_decode_envelope: Final = msgspec.json.Decoder(_Envelope).decode


class Member(NamedTuple):
    """The payload of one record; `content` is its JSON, or None where the value is exact already."""

    row: int
    value: Any
    content: bytes | None = None


class Prefixed(NamedTuple):
    """Records of one schema that begin with `prefix` and end with a brace; what is between should be one JSON value."""

    schema: bytes
    prefix: bytes
    rows: NDArray[np.int64]
    contents: list[bytes]

    def record(self, number: int) -> bytes:
        return self.prefix + self.contents[number] + b"}"


def opened(row: int, payload: bytes) -> tuple[bytes, Member, bytes | None]:
    """The schema's bytes, the payload, and what other records of the schema may begin with. Raises DataError."""
    try:
        envelope = _decode_envelope(payload)
        schema, content = bytes(envelope.schema), bytes(envelope.payload)
        member = Member(row, jackson.decode(content), content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Malformed):
        return opened_leniently(row, payload)
    prefix = payload[: -len(content) - 1]
    return schema, member, prefix if _is_prefix(prefix, payload, schema, content) else None


def _is_prefix(prefix: bytes, payload: bytes, schema: bytes, content: bytes) -> bool:
    """Whether the payload is all that follows, and any other payload could stand there."""
    if payload != prefix + content + b"}":
        return False
    try:
        other = _decode_envelope(prefix + b"null}")
    except msgspec.DecodeError:
        return False
    return bytes(other.schema) == schema and bytes(other.payload) == b"null"


def opened_leniently(row: int, payload: bytes) -> tuple[bytes, Member, None]:
    try:
        envelope = jackson.decode(payload, exact=True)
    except Malformed:
        raise DataError(MALFORMED) from None
    if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
        raise DataError(_NO_ENVELOPE)
    schema = msgspec.json.Encoder(decimal_format="number").encode(envelope["schema"])
    return schema, Member(row, envelope["payload"]), None


def take_prefixed(
    rows: NDArray[np.int64], payloads: pa.Array, schema: bytes, prefix: bytes
) -> tuple[Prefixed | None, NDArray[np.int64], pa.Array]:
    """The records that begin so, and the others."""
    begins = np.asarray(pc.starts_with(payloads, prefix)) if len(payloads) else np.zeros(0, np.bool_)
    if not begins.any():
        return None, rows, payloads
    begins &= np.asarray(pc.ends_with(payloads, b"}")) & (np.asarray(pc.binary_length(payloads)) > len(prefix))
    is_all = bool(begins.all())
    chosen = payloads if is_all else payloads.filter(pa.array(begins))
    contents = pc.binary_slice(chosen, len(prefix), -1).to_pylist()
    prefixed = Prefixed(schema, prefix, rows if is_all else rows[begins], contents)
    if is_all:
        return prefixed, rows[:0], payloads.slice(0, 0)
    return prefixed, rows[~begins], payloads.filter(pa.array(~begins))
