"""An identity provider for tests: signs JSON Web Tokens, and serves its key set and tokens over HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms


@lru_cache
def _private_key(algorithm: str, number: int) -> Any:
    """Made once per process: a key of 2048 bits takes a tenth of a second."""
    if algorithm.startswith("RS"):
        return rsa.generate_private_key(65537, 2048)
    curves: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    return ec.generate_private_key(curves[algorithm])


class TokenIssuer:
    """`number` tells issuers with different keys apart."""

    def __init__(self, key_id: str = "first", algorithm: str = "RS256", number: int = 0) -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self._key = _private_key(algorithm, number)

    def key(self) -> dict[str, Any]:
        entry: dict[str, Any] = json.loads(get_default_algorithms()[self.algorithm].to_jwk(self._key.public_key()))
        return {"kty": entry["kty"], "kid": self.key_id, "use": "sig"} | entry

    def public_pem(self) -> bytes:
        pem: bytes = self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    def token(self, user: str = "alice", lifetime_s: float = 600, header: Any = None, **claims: Any) -> str:
        """A claim that is None is left out."""
        now = time.time()
        every = {"sub": user, "iat": now - 1, "exp": now + lifetime_s, "iss": "https://issuer", "aud": "kafka"} | claims
        return jwt.encode(
            {name: value for name, value in every.items() if value is not None},
            self._key,
            algorithm=self.algorithm,
            headers={"kid": self.key_id} | (header or {}),
        )


def key_set(*issuers: TokenIssuer) -> str:
    return json.dumps({"keys": [issuer.key() for issuer in issuers]})


class IdentityProvider:
    """`/keys` answers `content`; `/token` gives a token to the client `alice` with the secret `alice-secret`."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer
        self.content = key_set(issuer).encode()
        self.status = 200
        self.token_lifetime_s = 600.0
        self.asked: list[str] = []
        self.authorizations: list[str] = []
        self.was_asked = threading.Condition()
        self.port = 0

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    @property
    def token_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    def wait_until_asked(self, times: int, timeout_s: float = 20) -> None:
        with self.was_asked:
            assert self.was_asked.wait_for(lambda: len(self.asked) >= times, timeout_s), self.asked


@contextmanager
def identity_provider(issuer: TokenIssuer) -> Iterator[IdentityProvider]:
    provider = IdentityProvider(issuer)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(provider.status, provider.content)

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            provider.authorizations.append(self.headers["Authorization"])
            # "alice:alice-secret" as RFC 7617 writes it.
            known = self.headers["Authorization"] == "Basic YWxpY2U6YWxpY2Utc2VjcmV0"
            if not known or form["grant_type"] != ["client_credentials"]:
                self._answer(401, b"{}")
                return
            token = provider.issuer.token(lifetime_s=provider.token_lifetime_s)
            answer = {"access_token": token, "token_type": "Bearer", "expires_in": provider.token_lifetime_s}
            self._answer(200, json.dumps(answer).encode())

        def _answer(self, status: int, content: bytes) -> None:
            with provider.was_asked:
                provider.asked.append(self.path)
                provider.was_asked.notify_all()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
