"""JSON Web Tokens for OAUTHBEARER: which key signed a token, and whether its claims hold now.

Parses key sets (RFC 7517) and tokens in compact form (RFC 7519) and checks claims by Kafka's settings. It verifies no
signature itself: `Signatures` is passed in by the composition root, from a cryptographic library.

Invariants:
- Only algorithms with a public key are accepted, whatever a token's header says: never `none`, never HS256.
- A key is used for its own kind of algorithm only.
- No error message contains a token.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from penstock.security.sasl_server import AuthenticationFailed, ValidToken

ALGORITHMS: Final = {"RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "ES256": "EC", "ES384": "EC", "ES512": "EC"}
"""Each with the kind of its key."""
_KEY_FIELDS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y")}
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_KEYS_MAX: Final = 100
_KEY_ID_LENGTH_MAX: Final = 1000


class Key(NamedTuple):
    """A public key. `algorithm` is None where the key set leaves it to the token; `material` is the library's."""

    kind: str
    algorithm: str | None
    material: Any


class Signatures(Protocol):
    """What a cryptographic library does here."""

    def public_key(self, entry: Mapping[str, Any]) -> Any:
        """From an entry of a key set. Raises ValueError if it is malformed or too weak."""

    def verify(self, algorithm: str, material: Any, signed: bytes, signature: bytes) -> bool: ...


class MalformedKeySet(Exception):
    """Not a set of public keys. The message is one line that says what is wrong."""


def parse_key_set(text: str, signatures: Signatures) -> dict[str, Key]:
    """The public signing keys by their ids. Keys of other kinds and curves, and for encryption, are left out."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedKeySet("not JSON") from None
    entries = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise MalformedKeySet('expected an object with a list "keys"')
    if len(entries) > _KEYS_MAX:
        raise MalformedKeySet(f"{len(entries)} keys; at most {_KEYS_MAX} are accepted")
    keys: dict[str, Key] = {}
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("kty"), str):
            raise MalformedKeySet(f"key {number} is not an object with a kty")
        if entry["kty"] not in _KEY_FIELDS or entry.get("use", "sig") != "sig":
            continue
        key_id = entry.get("kid")
        if not isinstance(key_id, str) or not 0 < len(key_id) <= _KEY_ID_LENGTH_MAX:
            raise MalformedKeySet(f"key {number} has no kid, or a very long one")
        if key_id in keys:
            raise MalformedKeySet(f"two keys have the kid {key_id!r}")
        if not all(isinstance(entry.get(name), str) for name in _KEY_FIELDS[entry["kty"]]):
            raise MalformedKeySet(f"the {entry['kty']} key {key_id!r} lacks {', '.join(_KEY_FIELDS[entry['kty']])}")
        algorithm = entry.get("alg")
        if entry["kty"] == "EC":
            if entry["crv"] not in _CURVES:
                continue
            algorithm = algorithm or _CURVES[entry["crv"]]
        try:
            keys[key_id] = Key(entry["kty"], algorithm, signatures.public_key(entry))
        except ValueError as error:
            raise MalformedKeySet(f"the {entry['kty']} key {key_id!r} cannot be used: {error}") from None
    if not keys:
        raise MalformedKeySet("it has no RSA or EC key for signatures")
    return keys


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Kafka's `sasl.oauthbearer.*`: an empty set of audiences, or no issuer, accepts every one."""

    expected_audience: frozenset[str] = frozenset()
    expected_issuer: str | None = None
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 30_000


class TokenVerifier:
    """`keys` may be replaced while the broker runs: key sets rotate. `on_unknown_key` is told of a key id that the set
    does not have, which may mean that the set in memory is old."""

    def __init__(
        self,
        keys: Mapping[str, Key],
        rules: TokenRules,
        signatures: Signatures,
        on_unknown_key: Callable[[], None] = lambda: None,
    ) -> None:
        self.keys = keys
        self._rules = rules
        self._signatures = signatures
        self._on_unknown_key = on_unknown_key

    def verify(self, token: str, now_ms: int) -> ValidToken:
        """Raises AuthenticationFailed with the reason, for the log."""
        parts = token.split(".")
        if len(parts) != 3:
            raise AuthenticationFailed("OAUTHBEARER: the token does not have three parts")
        header, claims = _json(parts[0]), _json(parts[1])
        self._check_signature(header, f"{parts[0]}.{parts[1]}".encode(), _decoded(parts[2]))
        return self._checked(claims, now_ms)

    def _check_signature(self, header: Mapping[str, Any], signed: bytes, signature: bytes) -> None:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise AuthenticationFailed("OAUTHBEARER: the token's algorithm is not accepted")
        if "crit" in header:
            raise AuthenticationFailed("OAUTHBEARER: the token has critical extensions")
        key = self.keys.get(key_id) if isinstance(key_id, str) else None
        if key is None:
            self._on_unknown_key()
            raise AuthenticationFailed("OAUTHBEARER: the key set has no such key")
        if key.kind != ALGORITHMS[algorithm] or key.algorithm not in (None, algorithm):
            raise AuthenticationFailed("OAUTHBEARER: the key is not for the token's algorithm")
        if not self._signatures.verify(algorithm, key.material, signed, signature):
            raise AuthenticationFailed("OAUTHBEARER: the signature is not valid")

    def _checked(self, claims: Mapping[str, Any], now_ms: int) -> ValidToken:
        rules = self._rules
        expires_ms = _time_ms(claims, "exp")
        if expires_ms is None:
            raise AuthenticationFailed("OAUTHBEARER: the token has no exp")
        if now_ms >= expires_ms + rules.clock_skew_ms:
            raise AuthenticationFailed("OAUTHBEARER: the token has expired")
        for name in ("nbf", "iat"):
            begins_ms = _time_ms(claims, name)
            if begins_ms is not None and now_ms < begins_ms - rules.clock_skew_ms:
                raise AuthenticationFailed("OAUTHBEARER: the token is not valid yet")
        if rules.expected_issuer is not None and claims.get("iss") != rules.expected_issuer:
            raise AuthenticationFailed("OAUTHBEARER: the token has another issuer")
        audience = claims.get("aud", [])
        audiences = {audience} if isinstance(audience, str) else set(filter(_is_text, _list(audience)))
        if rules.expected_audience and not rules.expected_audience & audiences:
            raise AuthenticationFailed("OAUTHBEARER: the token is for another audience")
        user = claims.get(rules.subject_claim)
        if not isinstance(user, str) or not user.strip():
            raise AuthenticationFailed(f"OAUTHBEARER: the token has no {rules.subject_claim}")
        scope = claims.get(rules.scope_claim)
        if scope is not None and not isinstance(scope, str) and not all(map(_is_text, _list(scope) or [None])):
            raise AuthenticationFailed(f"OAUTHBEARER: the token's {rules.scope_claim} is not text or a list of it")
        # Within the tolerated skew the session still lasts for a moment.
        return ValidToken(user, max(expires_ms, now_ms + 1))


def _json(part: str) -> Mapping[str, Any]:
    try:
        content = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise AuthenticationFailed("OAUTHBEARER: a part of the token is not a JSON object")
    return content


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part.encode("ascii") + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise AuthenticationFailed("OAUTHBEARER: a part of the token is not base64url") from None


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise AuthenticationFailed(f"OAUTHBEARER: the token's {name} is not a time")
    return int(value * 1000)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_text(value: object) -> bool:
    return isinstance(value, str)
