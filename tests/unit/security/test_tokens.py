"""Tokens and key sets; a checksum stands for signatures, because the library that verifies them is passed in."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.security.sasl_server import AuthenticationFailed, ValidToken
from penstock.security.tokens import MalformedKeySet, TokenRules, TokenVerifier, parse_key_set


class Checksums:
    def public_key(self, entry: Mapping[str, Any]) -> str:
        if entry.get("n") == "weak":
            raise ValueError("too weak")
        return str(entry["kid"])

    def verify(self, algorithm: str, material: Any, signed: bytes, signature: bytes) -> bool:
        return hashlib.sha256(signed).digest() == signature


NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
RSA = {"kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB"}
EC = {"kty": "EC", "kid": "e", "crv": "P-256", "x": "AA", "y": "AA"}
KEYS = parse_key_set(json.dumps({"keys": [RSA, EC]}), Checksums())
CLAIMS: dict[str, Any] = {"sub": "alice", "exp": NOW_S + 60, "iat": NOW_S, "iss": "https://issuer", "aud": ["kafka"]}
HEADER = {"alg": "RS256", "kid": "r"}


def part(content: object) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(claims: object = CLAIMS, header: object = HEADER) -> str:
    content = f"{part(header)}.{part(claims)}"
    return f"{content}.{part(hashlib.sha256(content.encode()).digest())}"


def verify(token: str, now_ms: int = NOW_MS, **rules: Any) -> ValidToken:
    return TokenVerifier(KEYS, TokenRules(**rules), Checksums()).verify(token, now_ms)


def test_a_valid_token() -> None:
    assert verify(signed()) == ValidToken("alice", NOW_MS + 60_000)
    assert verify(signed(header={"alg": "ES256", "kid": "e"})).user == "alice"
    strict: dict[str, Any] = {"expected_audience": frozenset({"kafka", "other"}), "expected_issuer": "https://issuer"}
    assert verify(signed(), **strict).user == "alice"
    assert verify(signed(CLAIMS | {"aud": "kafka"}), **strict).user == "alice"
    assert verify(signed(CLAIMS | {"client": "bob"}), subject_claim="client").user == "bob"


def test_the_clock_may_differ_a_little() -> None:
    assert verify(signed(), NOW_MS + 80_000).expires_ms > NOW_MS + 80_000
    assert verify(signed(CLAIMS | {"nbf": NOW_S + 20})).user == "alice"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", "three parts"),
        ("a.b", "three parts"),
        ("!.!.!", "base64url"),
        (f"{part([1])}.{part(CLAIMS)}.x", "JSON object"),
        (f"{part(b'nonsense')}.{part(CLAIMS)}.xx", "JSON object"),
        (f"{part(b'[' * 60_000)}.{part(CLAIMS)}.xx", "JSON object"),
        (signed(header={"alg": "none", "kid": "r"}), "algorithm is not accepted"),
        (signed(header={"alg": "HS256", "kid": "r"}), "algorithm is not accepted"),
        (signed(header={"alg": ["RS256"], "kid": "r"}), "algorithm is not accepted"),
        (signed(header={"alg": "RS256"}), "no such key"),
        (signed(header={"alg": "RS256", "kid": "other"}), "no such key"),
        (signed(header={"alg": "RS256", "kid": ["r"]}), "no such key"),
        (signed(header={"alg": "RS256", "kid": "e"}), "not for the token's algorithm"),
        (signed(header={"alg": "ES384", "kid": "e"}), "not for the token's algorithm"),
        (signed(header=HEADER | {"crit": ["x"]}), "critical extensions"),
        (signed()[:-4] + "AAAA", "signature is not valid"),
        (signed(CLAIMS | {"exp": NOW_S - 31}), "has expired"),
        (signed(CLAIMS | {"exp": None}), "has no exp"),
        (signed(CLAIMS | {"exp": "tomorrow"}), "exp is not a time"),
        (signed(CLAIMS | {"exp": True}), "exp is not a time"),
        (signed(CLAIMS | {"exp": 1e300}), "exp is not a time"),
        (signed(CLAIMS | {"nbf": NOW_S + 31}), "not valid yet"),
        (signed(CLAIMS | {"iat": NOW_S + 31}), "not valid yet"),
        (signed(CLAIMS | {"iss": "https://other"}), "another issuer"),
        (signed(CLAIMS | {"aud": ["other", {}]}), "another audience"),
        (signed(CLAIMS | {"aud": 7}), "another audience"),
        (signed(CLAIMS | {"sub": " "}), "no sub"),
        (signed(CLAIMS | {"sub": 7}), "no sub"),
        (signed(CLAIMS | {"scope": 7}), "scope is not text"),
        (signed(CLAIMS | {"scope": ["read", 7]}), "scope is not text"),
    ],
)
def test_tokens_that_are_refused(token: str, message: str) -> None:
    with pytest.raises(AuthenticationFailed, match=message) as refused:
        verify(token, expected_audience=frozenset({"kafka"}), expected_issuer="https://issuer")
    assert token not in str(refused.value) or not token


def test_a_key_set_keeps_public_signing_keys_only() -> None:
    others = [{"kty": "oct", "kid": "s", "k": "c2VjcmV0"}, EC | {"kid": "enc", "use": "enc"}, RSA | {"use": "sig"}]
    others.append(EC | {"kid": "bitcoin", "crv": "secp256k1"})
    assert list(parse_key_set(json.dumps({"keys": others}), Checksums())) == ["r"]


def test_a_key_that_the_set_does_not_have_is_reported() -> None:
    asked: list[str] = []
    verifier = TokenVerifier(KEYS, TokenRules(), Checksums(), lambda: asked.append("unknown"))
    verifier.verify(signed(), NOW_MS)
    assert asked == []
    with pytest.raises(AuthenticationFailed, match="no such key"):
        verifier.verify(signed(header={"alg": "RS256", "kid": "new"}), NOW_MS)
    assert asked == ["unknown"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("<html>", "not JSON"),
        ("[]", 'expected an object with a list "keys"'),
        ('{"keys": {}}', 'expected an object with a list "keys"'),
        ('{"keys": []}', "no RSA or EC key"),
        ('{"keys": [7]}', "key 0 is not an object with a kty"),
        (json.dumps({"keys": [RSA, {"kty": 7}]}), "key 1 is not an object with a kty"),
        (json.dumps({"keys": [{"kty": "RSA", "n": "x", "e": "x"}]}), "key 0 has no kid"),
        (json.dumps({"keys": [RSA, RSA]}), "two keys have the kid 'r'"),
        (json.dumps({"keys": [{"kty": "EC", "kid": "e", "x": "x"}]}), "the EC key 'e' lacks crv, x, y"),
        (json.dumps({"keys": [RSA] * 101}), "at most 100"),
        (json.dumps({"keys": [RSA | {"n": "weak"}]}), "the RSA key 'r' cannot be used: too weak"),
    ],
)
def test_malformed_key_sets(text: str, message: str) -> None:
    with pytest.raises(MalformedKeySet, match=message) as refused:
        parse_key_set(text, Checksums())
    assert "\n" not in str(refused.value)
