"""JSON as Jackson reads it for Kafka's JsonConverter.

Almost all records are plain JSON, which msgspec decodes. What msgspec refuses is read again with Jackson's rules:
numbers may have leading zeros, anything may follow the first value, bytes may be UTF-16 or UTF-32, and no bytes are no
value.

Owns which bytes are JSON. It must not know schemas.
"""

from __future__ import annotations

import codecs
import json
import re
from decimal import Decimal
from typing import Any, Final

import msgspec

MALFORMED: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "
NUMBER_CHARACTERS_MAX: Final = 1000
NESTING_MAX: Final = 1000


class Malformed(Exception):
    """These bytes are no JSON."""


class Missing:
    """What Jackson reads from no bytes at all."""


MISSING: Final = Missing()

_decode: Final = msgspec.json.Decoder().decode
_decode_exactly: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_LEADING_ZEROS: Final = re.compile(r'("(?:[^"\\]|\\.)*")|(?<![\w.])(-?)0+(?=\d)', re.DOTALL)
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])', re.DOTALL)
_WHITE_SPACE: Final = " \t\r\n"
_UTF_16_MIN: Final = 2
_EXPONENT_MAX: Final = (1 << 31) - 1
_UTF_32_MIN: Final = 4


def decode(payload: bytes, *, exact: bool = False) -> Any:
    """Raises Malformed. `exact`: numbers with a fraction or an exponent are Decimals, as Jackson keeps them for
    Kafka."""
    try:
        return _decode_exactly(payload) if exact else _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        raise Malformed from None
    return _decode_leniently(payload, _EXACT_DECODER if exact else _DECODER)


def decode_all(payloads: list[bytes]) -> list[Any]:
    """Each payload's value, or the exception `Malformed`."""
    try:
        return list(map(_decode, payloads))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [_decode_or_error(payload) for payload in payloads]


def decode_strictly(payloads: list[bytes]) -> list[Any]:
    """As `decode_all`, but only what msgspec decodes counts: nothing may follow the value, for example."""
    try:
        return list(map(_decode, payloads))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    values: list[Any] = []
    for payload in payloads:
        try:
            values.append(_decode(payload))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            values.append(Malformed())
    return values


def _decode_or_error(payload: bytes) -> Any:
    try:
        return decode(payload)
    except Malformed as error:
        return error


def _decode_leniently(payload: bytes, decoder: json.JSONDecoder) -> Any:
    text, is_whole = _text(payload)
    if not text and is_whole:
        return MISSING
    _check_nesting(text)
    text = _LEADING_ZEROS.sub(lambda found: found.group(1) or found.group(2) or "", text)
    try:
        value, end = decoder.raw_decode(text)
    except (ValueError, RecursionError):
        raise Malformed from None
    following = text[end : end + 1] or ("" if is_whole else "\ufffd")
    if following and not _may_follow(value, following):
        raise Malformed
    return value


def _text(payload: bytes) -> tuple[str, bool]:
    """The text up to bytes that are none, and whether it is all: what follows the first value may be anything."""
    encoding = _encoding_of(payload)
    is_whole = True
    try:
        text = payload.decode(encoding, "surrogatepass")
    except UnicodeDecodeError as error:
        text, is_whole = payload[: error.start].decode(encoding, "surrogatepass"), False
    return text.removeprefix("\ufeff").lstrip(_WHITE_SPACE), is_whole


def _may_follow(value: Any, character: str) -> bool:
    """Jackson looks at one character behind a number or a literal at the root, and at nothing behind other values."""
    if isinstance(value, bool) or value is None:
        return character < "0" or character in "]}" or not (character.isalnum() or character in "_$\ufffd")
    if isinstance(value, int | float | Decimal):
        return character in _WHITE_SPACE
    return True


def _check_nesting(text: str) -> None:
    depth = 0
    for opening, closing in _BRACKETS.findall(text):
        depth += bool(opening) - bool(closing)
        if depth > NESTING_MAX:
            raise Malformed
        if depth <= 0:
            return


def _encoding_of(payload: bytes) -> str:
    """As Jackson detects it: by a byte order mark, or by where the first characters have zeros."""
    start = payload[:4]
    if start.startswith((codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE)):
        return "utf-32-be" if start.startswith(codecs.BOM_UTF32_BE) else "utf-32-le"
    if start.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
        return "utf-16-be" if start.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    if len(start) >= _UTF_32_MIN:
        if start[:3] == b"\0\0\0":
            return "utf-32-be"
        if start[1:] == b"\0\0\0":
            return "utf-32-le"
    if len(start) >= _UTF_16_MIN:
        if start[0] == 0:
            return "utf-16-be"
        if start[1] == 0:
            return "utf-16-le"
    return "utf-8"


def _integer(digits: str) -> int:
    if len(digits) > NUMBER_CHARACTERS_MAX:
        raise ValueError(digits)
    return int(digits)


def _number(digits: str) -> float:
    return float(_checked(digits))


def _exact_number(digits: str) -> Decimal:
    return Decimal(_checked(digits))


def _checked(digits: str) -> str:
    """BigDecimal's exponents have 32 bits."""
    exponent = digits.lower().partition("e")[2]
    if len(digits) > NUMBER_CHARACTERS_MAX or (exponent and abs(int(exponent)) > _EXPONENT_MAX):
        raise ValueError(digits)
    return digits


def _constant(name: str) -> Any:
    raise ValueError(name)


def _without_surrogates(value: Any) -> Any:
    """Arrow's texts have no half of a surrogate pair; Java writes `?` for one."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\ufffd", "?")
        case dict():
            return {_without_surrogates(name): _without_surrogates(member) for name, member in value.items()}
        case list():
            return [_without_surrogates(member) for member in value]
    return value


class _Decoder(json.JSONDecoder):
    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        value, end = super().raw_decode(s, idx)
        try:
            s.encode()
            has_surrogates = r"\ud" in s or r"\uD" in s
        except UnicodeEncodeError:
            has_surrogates = True
        return (_without_surrogates(value) if has_surrogates else value), end


_DECODER: Final = _Decoder(parse_int=_integer, parse_float=_number, parse_constant=_constant)
_EXACT_DECODER: Final = _Decoder(parse_int=_integer, parse_float=_exact_number, parse_constant=_constant)
