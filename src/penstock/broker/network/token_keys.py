"""The key set of a listener with OAUTHBEARER: loaded from a file or a URL, and loaded again while the broker runs.

`sasl.oauthbearer.jwks.endpoint.url` is a `file:` URL, which is looked at for changes like certificates, or an `http:`
or `https:` one, which is asked in a thread of its own so that a slow server holds nothing up. `KeySetRefresh` decides
when. A key set that cannot be loaded is one line for the operator: at the start the broker does not start, later it
keeps the keys it has.

Invariants: one request is under way at most. Neither a response nor a token is written to the log.
"""

from __future__ import annotations

import http.client
import logging
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from penstock.core import limits
from penstock.core.addresses import is_loopback
from penstock.metadata.listener_security import OAuthSettings
from penstock.security.key_set_refresh import KeySetRefresh, RefreshTimes
from penstock.security.tokens import Key, MalformedKeySet, Signatures, TokenRules, TokenVerifier, parse_key_set

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

_SETTING: Final = "sasl.oauthbearer.jwks.endpoint.url"
_CHUNK_BYTES: Final = 64 * 1024


class KeySetError(Exception):
    """A key set that cannot be used. The message is one line with the setting, the place and the remedy."""


class TokenKeys:
    """Loads the set when it is made. `verifier` always has the newest keys that could be loaded."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._url = settings.jwks_url
        parts = urlsplit(settings.jwks_url)
        self._path = unquote(parts.path) if parts.scheme == "file" else None
        self._times = RefreshTimes(settings.refresh_ms, settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._signatures = _library_signatures()
        rules = TokenRules(
            expected_audience=frozenset(settings.expected_audience),
            expected_issuer=settings.expected_issuer,
            subject_claim=settings.subject_claim,
            scope_claim=settings.scope_claim,
            clock_skew_ms=settings.clock_skew_seconds * 1000,
        )
        self._file_state = self._look()
        keys = self._load()
        self.verifier = TokenVerifier(keys, rules, self._signatures, self._unknown_key)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refresh: KeySetRefresh | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loading = False
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            logger.warning(
                "%s: %s is not encrypted: everyone on the way to it can replace the keys; use https",
                _SETTING,
                self._url,
            )

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on the set is loaded again when it is due. `close` ends that."""
        self._loop = loop
        self._refresh = KeySetRefresh(self._times, self._now_ms(loop))
        self._schedule()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None

    @staticmethod
    def _now_ms(loop: asyncio.AbstractEventLoop) -> int:
        return int(loop.time() * 1000)

    def _schedule(self) -> None:
        if self._loop is None or self._refresh is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._path is not None:
            self._timer = self._loop.call_later(limits.CERTIFICATE_CHECK_S, self._reload_changed_file)
        else:
            self._timer = self._loop.call_at(self._refresh.due_ms / 1000, self._begin)

    def _unknown_key(self) -> None:
        if self._loop is None or self._refresh is None or not self._refresh.unknown_key(self._now_ms(self._loop)):
            return
        if self._path is not None:
            self._loop.call_soon(self._reload_changed_file)
        elif not self._loading:
            self._schedule()

    # A file

    def _reload_changed_file(self) -> None:
        state = self._look()
        if state != self._file_state:
            self._file_state = state
            try:
                self._use(self._load())
            except KeySetError as error:
                logger.error("the changed key set is not used, and the old keys stay: %s", error)
        self._schedule()

    def _look(self) -> object:
        """Changes whenever the file does, also if another file takes its name."""
        if self._path is None:
            return None
        try:
            stat = os.stat(self._path)
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    # A URL

    def _begin(self) -> None:
        if self._loading:
            return
        self._loading = True
        # Not the loop's executor: a broker that stops would wait for it.
        threading.Thread(target=self._load_and_report, args=(self._loop,), name="penstock-key-set", daemon=True).start()

    def _load_and_report(self, loop: asyncio.AbstractEventLoop) -> None:
        outcome: dict[str, Key] | KeySetError
        try:
            outcome = self._load()
        except KeySetError as error:
            outcome = error
        try:
            loop.call_soon_threadsafe(self._loaded, outcome)
        except RuntimeError:
            return  # the broker has stopped meanwhile

    def _loaded(self, outcome: dict[str, Key] | KeySetError) -> None:
        self._loading = False
        if self._loop is None or self._refresh is None:
            return
        if isinstance(outcome, KeySetError):
            self._refresh.failed(self._now_ms(self._loop))
            logger.error("the key set cannot be loaded again, and the old keys stay: %s", outcome)
        else:
            self._refresh.succeeded(self._now_ms(self._loop))
            self._use(outcome)
        self._schedule()

    # Both

    def _use(self, keys: Mapping[str, Key]) -> None:
        if keys.keys() != self.verifier.keys.keys():
            logger.warning("the key set of %s has changed: %s", self._url, ", ".join(sorted(keys)))
        self.verifier.keys = keys

    def _load(self) -> dict[str, Key]:
        try:
            content = _read_file(self._path) if self._path is not None else _read_url(self._url)
            return parse_key_set(content.decode(), self._signatures)
        except MalformedKeySet as error:
            raise KeySetError(f"{_SETTING}: {self._url}: {error}; expected a JSON Web Key Set") from None
        except UnicodeDecodeError:
            raise KeySetError(f"{_SETTING}: {self._url}: not UTF-8; expected a JSON Web Key Set") from None
        except (OSError, http.client.HTTPException) as error:
            raise KeySetError(f"{_SETTING}: {self._url}: {_reason(error)}; check the address") from None


def _library_signatures() -> Signatures:
    try:
        from penstock.broker.network.token_signatures import LibrarySignatures
    except ImportError:
        raise KeySetError("OAUTHBEARER needs a library for signatures; run pip install 'penstock[oauth]'") from None
    return LibrarySignatures()


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return _bounded(file.read)


def _read_url(url: str) -> bytes:
    # Redirects are not followed: the keys that decide who may enter come from the address in the settings.
    opener = urllib.request.build_opener(_NoRedirects)
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - the scheme is checked
    with opener.open(request, timeout=limits.KEY_SET_TIMEOUT_S) as response:
        return _bounded(response.read1)


def _bounded(read: Callable[[int], bytes]) -> bytes:
    """Everything, within the limits of size and time: a timeout of a socket begins again with every byte."""
    deadline_s = time.monotonic() + limits.KEY_SET_TIMEOUT_S
    content = bytearray()
    while chunk := read(_CHUNK_BYTES):
        content += chunk
        if len(content) > limits.KEY_SET_BYTES_MAX:
            raise MalformedKeySet(f"more than {limits.KEY_SET_BYTES_MAX} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError(0, "timed out")
    return bytes(content)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: object) -> None:
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        error.close()  # it is the response too
        return f"HTTP status {error.code}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "timed out"
    return getattr(cause, "strerror", None) or getattr(cause, "reason", None) or type(cause).__name__
