"""Who may use the REST API: users with passwords (Basic) and tokens (Bearer), from files.

The password file is the one of Kafka Connect's BasicAuthSecurityRestExtension: a properties file, `user=password` in
each line. The token file has a token in each line. Both are read again when they change, so that a password can be
replaced while the worker runs.

Invariant: comparisons take the same time for every wrong password, and no text of an answer or log has one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.connect.config.definition import ConfigException
from penstock.core.properties import parse_properties

BASIC_AUTH_EXTENSION: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
PASSWORD_FILE: Final = "penstock.rest.basic.auth.file"  # noqa: S105 (a name)
TOKEN_FILE: Final = "penstock.rest.bearer.token.file"  # noqa: S105 (a name)
_REFUSED: Final = "User cannot access the resource."


class SecretsFile:
    """Lines of a file, by what `parse` makes of them; read again when the file changes."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._stamp: tuple[int, int] | None = None
        self._text = ""
        self._lock = threading.Lock()
        self.text()

    def text(self) -> str:
        with self._lock:
            try:
                found = self._path.stat()
                stamp = (found.st_mtime_ns, found.st_size)
                if stamp != self._stamp:
                    self._text = self._path.read_text(encoding="utf-8")
                    self._stamp = stamp
            except (OSError, UnicodeDecodeError) as failure:
                if self._stamp is None:
                    raise ConfigException(f"{self._name}: cannot read {self._path}: {failure}", self._name) from failure
                # A file that is being replaced: what was read before holds.
            return self._text


class Authenticator:
    def __init__(self, passwords: SecretsFile | None, tokens: SecretsFile | None) -> None:
        self._passwords = passwords
        self._tokens = tokens

    def is_allowed(self, authorization: str | None) -> bool:
        scheme, _, credentials = (authorization or "").partition(" ")
        match scheme.lower():
            case "basic":
                return self._passwords is not None and self._is_user(credentials.strip())
            case "bearer":
                return self._tokens is not None and self._is_token(credentials.strip())
        return False

    @property
    def challenges(self) -> Sequence[str]:
        found = []
        if self._passwords is not None:
            found.append('Basic realm="Kafka Connect"')
        if self._tokens is not None:
            found.append('Bearer realm="Kafka Connect"')
        return found

    def _is_user(self, credentials: str) -> bool:
        assert self._passwords is not None
        try:
            decoded = base64.b64decode(credentials, validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return False
        user, _, password = decoded.partition(":")
        users = {entry.key: entry.value for entry in parse_properties(self._passwords.text())}
        expected = users.get(user)
        return _equal(password, expected or "") and expected is not None

    def _is_token(self, token: str) -> bool:
        assert self._tokens is not None
        known = (line.strip() for line in self._tokens.text().splitlines())
        # Every one is compared, so that the time does not tell which of them is close.
        matches = [_equal(token, each) for each in known if each and not each.startswith("#")]
        return True in matches


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), hashlib.sha256(expected.encode()).digest())


class AuthenticationMiddleware:
    """Answers 401 as Kafka Connect's extension does; preflight requests of browsers carry no credentials."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        is_preflight = request.method == "OPTIONS" and "access-control-request-method" in request.headers
        if is_preflight or self._authenticator.is_allowed(request.headers.get("authorization")):
            await self._app(scope, receive, send)
            return
        headers = {"WWW-Authenticate": ", ".join(self._authenticator.challenges)}
        await PlainTextResponse(_REFUSED, 401, headers)(scope, receive, send)


def authenticator_of(config: Mapping[str, str]) -> Authenticator | None:
    """By the worker's properties; None: everybody may use the API, as by default in Kafka Connect."""
    extensions = [each.strip() for each in config.get("rest.extension.classes", "").split(",") if each.strip()]
    unknown = [each for each in extensions if each.rpartition(".")[2] != BASIC_AUTH_EXTENSION.rpartition(".")[2]]
    if unknown:
        raise ConfigException(
            f"Invalid value {unknown[0]} for configuration rest.extension.classes: supported is {BASIC_AUTH_EXTENSION}",
            "rest.extension.classes",
        )
    passwords, tokens = config.get(PASSWORD_FILE), config.get(TOKEN_FILE)
    if extensions and passwords is None:
        raise ConfigException(
            f"rest.extension.classes asks for Basic authentication: set {PASSWORD_FILE} to the file with user=password"
            " lines that the JAAS configuration named",
            PASSWORD_FILE,
        )
    if passwords is None and tokens is None:
        return None
    return Authenticator(
        None if passwords is None else SecretsFile(Path(passwords), PASSWORD_FILE),
        None if tokens is None else SecretsFile(Path(tokens), TOKEN_FILE),
    )
