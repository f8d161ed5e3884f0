"""Requests to a Connect worker's REST API, ours or Kafka's own, for commands.

Owns the connection and the translation of failures into one line with the remedy. It must not know what is asked.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from difflib import get_close_matches
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from penstock.cli.command_error import CommandError, usage_error
from penstock.core.exit_codes import ExitCode

DEFAULT_URL: Final = "http://127.0.0.1:8083"
_TIMEOUT_S: Final = 100.0  # a worker gives up after 90 s
_WARNING_HEADER: Final = "Penstock-Warning"


class Refused(Exception):
    """The worker's answer is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class ConnectApi:
    """`user` is `NAME:PASSWORD`."""

    url: str = DEFAULT_URL
    user: str | None = None
    token: str | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).netloc:
            raise usage_error(f"--url '{self.url}': expected http://HOST:PORT")
        if self.user is not None and ":" not in self.user:
            raise usage_error("--user: expected NAME:PASSWORD")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON, or None if it has none. Raises CommandError, also for an answer that is an error."""
        try:
            return self.request(method, path, body)
        except Refused as refused:
            raise self.failure(refused) from refused

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Raises Refused for an answer that is an error."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", "Content-Type": "application/json", **self._authorization()}
        request = urllib.request.Request(self.url.rstrip("/") + path, content, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._context()) as answer:  # noqa: S310
                text = answer.read()
                warnings = unquote(answer.headers.get(_WARNING_HEADER, ""))
        except urllib.error.HTTPError as refused:
            with refused:
                raise Refused(refused.code, _message(refused)) from None
        except (OSError, HTTPException) as failure:
            raise self._unreachable(failure) from failure
        for warning in filter(None, warnings.split(" | ")):
            print(f"penstock: warning: {warning}", file=sys.stderr)
        try:
            return json.loads(text) if text.strip() else None
        except ValueError:
            raise CommandError(
                f"{self.url} is no Connect worker: its answer is no JSON", ExitCode.UNREACHABLE
            ) from None

    def failure(self, refused: Refused) -> CommandError:
        """The one line for an answer that is an error."""
        match refused.status:
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                return CommandError(
                    f"the worker at {self.url} refuses the credentials; give --user NAME:PASSWORD or --token",
                    ExitCode.ACCESS_DENIED,
                )
            case HTTPStatus.NOT_FOUND:
                return CommandError(refused.message, ExitCode.NOT_FOUND)
        return CommandError(refused.message)

    def ask_about(self, name: str, method: str, suffix: str = "", body: Any = None) -> Any:
        """A request about one connector. One that does not exist is named with those that may have been meant."""
        try:
            return self.request(method, connector_path(name) + suffix, body)
        except Refused as refused:
            if refused.status != HTTPStatus.NOT_FOUND:
                raise self.failure(refused) from refused
            close = get_close_matches(name, self.ask("GET", "/connectors"), 1)
            hint = f"did you mean '{close[0]}'?" if close else "`penstock connector list` lists all of them"
            raise CommandError(f"no connector is called '{name}'; {hint}", ExitCode.NOT_FOUND) from refused

    def _authorization(self) -> dict[str, str]:
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user is not None:
            return {"Authorization": f"Basic {base64.b64encode(self.user.encode()).decode()}"}
        return {}

    def _context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https"):
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as failure:
            raise usage_error(f"--ca-file {self.ca_file}: {failure}") from failure

    def _unreachable(self, failure: OSError | HTTPException) -> CommandError:
        reason = getattr(failure, "reason", failure)
        text = getattr(reason, "strerror", None) or str(reason)
        return CommandError(
            f"no Connect worker answers at {self.url}: {text};"
            " start one with `penstock connect`, or name it with --url",
            ExitCode.UNREACHABLE,
        )


def connector_path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _message(refused: urllib.error.HTTPError) -> str:
    text = refused.read().decode("utf-8", "replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"the worker answers {refused.code} {refused.reason}"
