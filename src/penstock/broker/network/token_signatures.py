"""Signatures of tokens, by PyJWT and the library `cryptography`: the extra `penstock[oauth]`.

Imported when a listener offers OAUTHBEARER. Claims and algorithms are decided in `security/tokens.py`.

Invariant: of an entry of a key set only the public part is used, even if it contains a private key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import InvalidKeyError

from penstock.security.tokens import ALGORITHMS

_RSA_BITS_MIN: Final = 2048  # RFC 7518, section 3.3
_PUBLIC_FIELDS: Final = ("kty", "n", "e", "crv", "x", "y")


class LibrarySignatures:
    def __init__(self) -> None:
        available = get_default_algorithms()
        self._algorithms: dict[str, Any] = {name: available[name] for name in ALGORITHMS}
        self._by_kind = {kind: self._algorithms[name] for name, kind in ALGORITHMS.items()}

    def public_key(self, entry: Mapping[str, Any]) -> Any:
        public = {name: entry[name] for name in _PUBLIC_FIELDS if name in entry}
        try:
            key = self._by_kind[entry["kty"]].from_jwk(public)
        except (InvalidKeyError, UnsupportedAlgorithm, TypeError, ValueError):
            raise ValueError("its numbers are malformed") from None
        if isinstance(key, RSAPublicKey) and key.key_size < _RSA_BITS_MIN:
            raise ValueError(f"{key.key_size} bits; at least {_RSA_BITS_MIN} are required")
        return key

    def verify(self, algorithm: str, material: Any, signed: bytes, signature: bytes) -> bool:
        return bool(self._algorithms[algorithm].verify(signed, material, signature))
