"""Tokens for OAUTHBEARER: from a setting, a file, or the token endpoint of an identity provider.

The endpoint is asked for a token with the client's own credentials (RFC 6749, section 4.4), as Kafka's and librdkafka's
clients ask. A token is used by all connections of the process until most of its lifetime has passed; a file is read for
every connection, because its owner replaces it.

Invariant: no error message contains a token or a client secret.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from penstock.core.errors import AccessDenied
from penstock.wire.errors import ConnectionLost

_LIFETIME_USED: Final = 0.8
_RESPONSE_BYTES_MAX: Final = 1024 * 1024
_URL_SETTING: Final = "sasl.oauthbearer.token.endpoint.url"


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """A `file:` URL needs no client id."""

    url: str
    client_id: str = ""
    scope: str = ""
    client_secret: str = field(default="", repr=False)


_lock: Final = threading.Lock()
_tokens: Final[dict[TokenEndpoint, tuple[str, float]]] = {}


def token_from(endpoint: TokenEndpoint, timeout_s: float) -> str:
    """Raises AccessDenied if the endpoint refuses, and ConnectionLost if it cannot be reached."""
    parts = urlsplit(endpoint.url)
    if parts.scheme == "file":
        return _from_file(endpoint.url, Path(unquote(parts.path)))
    with _lock:
        known = _tokens.get(endpoint)
        if known is None or time.monotonic() >= known[1]:
            known = _tokens[endpoint] = _requested(endpoint, timeout_s)
        return known[0]


def _from_file(url: str, path: Path) -> str:
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a token"
        raise AccessDenied(f"{_URL_SETTING}: {url}: {reason}") from None
    if not token:
        raise AccessDenied(f"{_URL_SETTING}: {url} is empty; expected a token")
    return token


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: object) -> None:
        return None


def _requested(endpoint: TokenEndpoint, timeout_s: float) -> tuple[str, float]:
    """The token, and when to ask for the next one."""
    credentials = f"{quote(endpoint.client_id, safe='')}:{quote(endpoint.client_secret, safe='')}".encode()
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked with the settings
        endpoint.url,
        data=urlencode(form).encode(),
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(credentials).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    started = time.monotonic()
    try:
        # A redirect is a refusal: the client's secret goes to the address in the settings only.
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout_s) as response:
            answer = json.loads(response.read(_RESPONSE_BYTES_MAX))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code >= 500:
            raise ConnectionLost(f"{_URL_SETTING}: {endpoint.url}: HTTP status {error.code}") from None
        raise AccessDenied(
            f"{_URL_SETTING}: {endpoint.url} refused the client: HTTP status {error.code}; check "
            "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ConnectionLost(f"{_URL_SETTING}: cannot reach {endpoint.url}: {reason}") from None
    except (ValueError, RecursionError):
        answer = None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.isascii() or not token:
        raise AccessDenied(f"{_URL_SETTING}: {endpoint.url}: the response has no access_token")
    lifetime_s = answer.get("expires_in", 0)
    if isinstance(lifetime_s, bool) or not isinstance(lifetime_s, int | float):
        lifetime_s = 0
    return token, started + lifetime_s * _LIFETIME_USED
