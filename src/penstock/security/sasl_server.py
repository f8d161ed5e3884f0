"""The broker's side of SASL: each mechanism as an exchange of messages.

Mechanisms: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628). An exchange is given the client's
messages one by one and answers each with the next challenge, or with the outcome. Knows no socket, no clock and no
source of randomness; `sasl.py` is the client's side.

Invariants:
- A failure tells the client nothing about its reason. `AuthenticationFailed` carries the reason for the log, without
  any secret.
- A user that does not exist cannot be told from a wrong password: SCRAM continues with a made-up salt until the proof,
  and PLAIN compares with a made-up password.
- Comparisons with secrets take the same time wherever the difference is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from penstock.core.credentials import SCRAM_ITERATIONS_MIN, ScramCredential, ScramMechanism

# A token may be long; nothing else that an exchange sends is.
MESSAGE_BYTES_MAX: Final = 64 * 1024


class AuthenticationFailed(Exception):
    """The message is for the broker's log. The client is only told that it failed."""


class Authenticated(NamedTuple):
    """The exchange succeeded. `message` is the last one to the client.

    `expires_ms` is when the credential itself expires, in Unix milliseconds; None if it does not.
    """

    user: str
    message: bytes
    expires_ms: int | None = None


class Challenge(NamedTuple):
    """The exchange goes on: the client's answer to this message comes next.

    `failure` is there where the message tells the client that it failed, and its answer only acknowledges that.
    """

    message: bytes
    failure: AuthenticationFailed | None = None


class ServerExchange(Protocol):
    """One attempt of one client. After an outcome or a failure it is not used again."""

    def step(self, message: bytes, now_ms: int) -> Challenge | Authenticated: ...


# PLAIN


class PlainExchange:
    """`passwords` by user, as `sasl.jaas.config` lists them."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, message: bytes, now_ms: int) -> Authenticated:
        parts = _text(message).split("\0")
        if len(parts) != 3:
            raise AuthenticationFailed("PLAIN: the message does not have three parts")
        authorization_id, user, password = parts
        if not user or not password:
            raise AuthenticationFailed("PLAIN: the user or the password is empty")
        if authorization_id not in ("", user):
            raise AuthenticationFailed("PLAIN: the authorization id is not the user")
        expected = self._passwords.get(user)
        # Always one comparison, so that its time does not tell whether the user exists.
        matches = hmac.compare_digest((expected or "\0").encode(), password.encode())
        if expected is None or not matches:
            raise AuthenticationFailed("PLAIN: unknown user or wrong password")
        return Authenticated(user, b"")


# SCRAM


def scram_credential(mechanism: ScramMechanism, salt: bytes, iterations: int, password: str) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)
    return scram_credential_of(mechanism, salt, iterations, salted)


def scram_credential_of(mechanism: ScramMechanism, salt: bytes, iterations: int, salted: bytes) -> ScramCredential:
    """From a salted password, as AlterUserScramCredentials carries it."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    return ScramCredential(
        mechanism,
        iterations,
        salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.digest),
    )


_CLIENT_FIRST: Final = re.compile(
    r"(?P<gs2>(?:n|y),(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>n=(?P<user>[^,]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=?[^,]*)*)"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,]*)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramExchange:
    """`find` gives a user's credential for the mechanism. `nonce` is new for every exchange and hard to guess.

    `decoy_secret` is the same for the lifetime of the process: the salt of a user that does not exist is derived from
    it, so that asking twice gives the same salt twice.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], ScramCredential | None],
        nonce: str,
        decoy_secret: bytes,
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._decoy_secret = decoy_secret
        self._step = self._first

    def step(self, message: bytes, now_ms: int) -> Challenge | Authenticated:
        return self._step(_text(message))

    def _first(self, text: str) -> Challenge | Authenticated:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationFailed(f"{self._mechanism}: the first message is malformed")
        user = _sasl_name(match["user"])
        if match["authzid"] and _sasl_name(match["authzid"]) != user:
            raise AuthenticationFailed(f"{self._mechanism}: the authorization id is not the user")
        credential = self._find(user)
        self._known = credential is not None
        self._credential = credential or self._decoy(user)
        self._user = user
        self._gs2 = match["gs2"]
        self._client_first = match["bare"]
        self._both_nonces = match["nonce"] + self._nonce
        salt = base64.b64encode(self._credential.salt).decode()
        self._server_first = f"r={self._both_nonces},s={salt},i={self._credential.iterations}"
        self._step = self._final
        return Challenge(self._server_first.encode())

    def _final(self, text: str) -> Authenticated:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise AuthenticationFailed(f"{self._mechanism}: the final message is malformed")
        if _decoded(match["binding"]) != self._gs2.encode() or match["nonce"] != self._both_nonces:
            raise AuthenticationFailed(f"{self._mechanism}: the final message belongs to another exchange")
        digest, credential = self._mechanism.digest, self._credential
        signed = f"{self._client_first},{self._server_first},{match['without_proof']}".encode()
        signature = hmac.digest(credential.stored_key, signed, digest)
        proof = _decoded(match["proof"])
        if len(proof) != len(signature):
            raise AuthenticationFailed(f"{self._mechanism}: the proof has the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        matches = hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)
        if not (matches and self._known):
            raise AuthenticationFailed(f"{self._mechanism}: unknown user or wrong password")
        server_signature = hmac.digest(credential.server_key, signed, digest)
        return Authenticated(self._user, b"v=" + base64.b64encode(server_signature))

    def _decoy(self, user: str) -> ScramCredential:
        salt = hmac.digest(self._decoy_secret, user.encode(), "sha256")[:16]
        key = hmac.digest(self._decoy_secret, b"key" + user.encode(), self._mechanism.digest)
        return ScramCredential(self._mechanism, SCRAM_ITERATIONS_MIN, salt, stored_key=key, server_key=key)


def _sasl_name(text: str) -> str:
    """RFC 5802: a comma is =2C and an equals sign =3D; any other = is a mistake."""
    if not text:
        raise AuthenticationFailed("SCRAM: the user is empty")
    if re.search("=(?!2C|3D)", text):
        raise AuthenticationFailed("SCRAM: the user is not escaped correctly")
    return text.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("SCRAM: base64 is malformed") from None


# OAUTHBEARER


class ValidToken(NamedTuple):
    user: str
    expires_ms: int


_BEARER: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,]*))?,\x01(?:(?!auth=)[A-Za-z]+=[^\x01]*\x01)*"
    r"auth=[Bb]earer +(?P<token>[\x21-\x7e]+)\x01(?:[A-Za-z]+=[^\x01]*\x01)*\x01"
)


class OAuthBearerExchange:
    """`verify` gives what a token says, or raises AuthenticationFailed.

    After a bad token the client is told so and acknowledges it, as RFC 7628 asks; then the exchange fails.
    """

    def __init__(self, verify: Callable[[str, int], ValidToken]) -> None:
        self._verify = verify
        self._failure: AuthenticationFailed | None = None

    def step(self, message: bytes, now_ms: int) -> Challenge | Authenticated:
        if self._failure is not None:
            raise self._failure
        match = _BEARER.fullmatch(_text(message))
        if match is None:
            raise AuthenticationFailed("OAUTHBEARER: the message is malformed")
        try:
            token = self._verify(match["token"], now_ms)
            if match["authzid"] and match["authzid"] != token.user:
                raise AuthenticationFailed("OAUTHBEARER: the authorization id is not the token's subject")
        except AuthenticationFailed as failure:
            self._failure = failure
            return Challenge(json.dumps({"status": "invalid_token"}).encode(), failure)
        return Authenticated(token.user, b"", token.expires_ms)


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationFailed(f"a message of {len(message)} bytes is too long")
    try:
        return bytes(message).decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("a message is not UTF-8") from None
