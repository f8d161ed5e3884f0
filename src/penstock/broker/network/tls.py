"""TLS of the broker: contexts from PEM files, and the session of one connection without its socket.

A context is made when the broker starts and again when its files change; connections that are open keep theirs. A
context that cannot be made is one line for the operator: at the start the broker does not start, later it keeps the one
it has.

Invariants: no error message contains a secret. A key and its certificate are used together or not at all.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any, Final

from penstock.metadata.listener_security import TlsSettings
from penstock.security.principals import InvalidRule, PrincipalMapping, distinguished_name

logger = logging.getLogger(__name__)

RECORD_BYTES_MAX: Final = 1 << 14  # of the plaintext in one record
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_CERTIFICATE_EXPIRED: Final = 10
_CERTIFICATE_NOT_YET_VALID: Final = 9
_HANDSHAKE_RECORD: Final = 22
_RECORD_HEADER_BYTES: Final = 5  # type, version, size


class TlsError(Exception):
    """A certificate, key or rule that cannot be used. The message is one line with the setting and the remedy."""


class ListenerTls:
    """The context of one listener, and the rules that turn client certificates into users."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        try:
            self.mapping = PrincipalMapping.parse(settings.principal_mapping_rules)
        except InvalidRule as error:
            raise TlsError(f"ssl.principal.mapping.rules: {error}") from None
        self._files = _files_state(settings)
        self.certificate: dict[str, Any] = {}
        self.context = self._make()

    def reload_if_changed(self) -> bool:
        """Looks at the files. True if connections use another context from now on."""
        files = _files_state(self._settings)
        if files == self._files:
            return False
        self._files = files
        try:
            self.context = self._make()
        except TlsError as error:
            logger.error("the changed certificate is not used, and the old one stays: %s", error)
            return False
        logger.warning("the certificate was read again: %s", self._settings.keystore_file or "ssl.truststore.location")
        return True

    def covers(self, host: str) -> bool:
        """Whether the certificate is for this host: a client that checks it connects."""
        names = [value.lower() for kind, value in self.certificate.get("subjectAltName", ()) if kind != "URI"]
        host = host.lower()
        return host in names or any(
            name.startswith("*.") and host.partition(".")[2] == name[2:] for name in names if "." in host
        )

    def _make(self) -> ssl.SSLContext:
        certificate, context = _checked_certificate(self._settings), server_context(self._settings)
        self.certificate = certificate
        return context


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = _with_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings)
    versions = [_VERSIONS[name] for name in settings.enabled_protocols] or list(_VERSIONS.values())
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.cipher_suites:
        try:
            context.set_ciphers(":".join(settings.cipher_suites))
        except ssl.SSLError:
            raise TlsError(
                f"ssl.cipher.suites: OpenSSL knows none of {', '.join(settings.cipher_suites)}; "
                "write OpenSSL's names, as `openssl ciphers` shows them"
            ) from None
    if settings.client_auth != "none":
        _load_authorities(context, settings)
        context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    return context


def client_context(settings: TlsSettings, *, checks_host_names: bool) -> ssl.SSLContext:
    """How this broker connects to the same listener of another one. Without authorities of its own: the system's."""
    context = _with_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), settings)
    versions = [_VERSIONS[name] for name in settings.enabled_protocols] or list(_VERSIONS.values())
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.check_hostname = checks_host_names
    if settings.truststore_file is None and settings.truststore_certificates is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_authorities(context, settings)
    return context


def _load_authorities(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:
        context.load_verify_locations(cafile=settings.truststore_file, cadata=settings.truststore_certificates)
    except (OSError, ValueError) as error:
        place = settings.truststore_file or "ssl.truststore.certificates"
        raise TlsError(f"ssl.truststore.location: {place}: {_reason(error)}; expected certificates in PEM") from None


def _with_certificate(context: ssl.SSLContext, settings: TlsSettings) -> ssl.SSLContext:
    # Without a password OpenSSL would ask for one on the terminal.
    password = settings.key_password or ""
    place = f"ssl.keystore.location: {settings.keystore_file}" if settings.keystore_file else "ssl.keystore.key"
    try:
        if settings.keystore_file is not None:
            context.load_cert_chain(settings.keystore_file, password=password)
        else:
            # Python loads certificates from files only, so text goes into a file that no other user can read.
            with tempfile.TemporaryDirectory(prefix="penstock-tls-") as scratch:
                together = Path(scratch) / "keystore.pem"
                together.touch(mode=0o600)
                together.write_text(f"{_lines(settings.key)}\n{_lines(settings.certificate_chain)}\n", encoding="utf-8")
                context.load_cert_chain(together, password=password)
    except ssl.SSLError as error:
        raise TlsError(f"{place}: {_why_not_loaded(error)}") from None
    except (OSError, ValueError) as error:
        raise TlsError(f"{place}: {_reason(error)}; check the path and its permissions") from None
    return context


def _why_not_loaded(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate; put the key of the first certificate into the file"
    if error.reason in ("BAD_DECRYPT", "BAD_PASSWORD_READ", "PROBLEMS_GETTING_PASSWORD"):
        return "the private key cannot be decrypted; check ssl.key.password"
    return (
        "no usable private key and certificate; expected a PEM file with both, and ssl.key.password if the key is "
        "encrypted"
    )


def _checked_certificate(settings: TlsSettings) -> dict[str, Any]:
    """The broker's certificate as Python shows it. Raises TlsError if it is not valid now.

    OpenSSL checks the dates of a peer's certificate only, so the broker shakes hands with itself, in memory.
    """
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    chain = _certificates_in(settings)
    try:
        client_context.load_verify_locations(cadata=chain)
    except (ssl.SSLError, ValueError):
        raise TlsError(f"{_place(settings)}: no certificate; expected certificates in PEM") from None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = _with_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings).wrap_bio(
        to_server, to_client, server_side=True
    )
    client = client_context.wrap_bio(to_client, to_server)
    try:
        for _ in range(4):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _CERTIFICATE_EXPIRED:
            raise TlsError(f"{_place(settings)}: the certificate has expired; renew it") from None
        if error.verify_code == _CERTIFICATE_NOT_YET_VALID:
            raise TlsError(
                f"{_place(settings)}: the certificate is not valid yet; check its dates and this machine's clock"
            ) from None
        raise TlsError(f"{_place(settings)}: the certificate is not valid: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise TlsError(f"{_place(settings)}: the certificate cannot be used: {_reason(error)}") from None
    return client.getpeercert() or {}


def _certificates_in(settings: TlsSettings) -> str:
    text = settings.certificate_chain
    if settings.keystore_file is not None:
        try:
            text = Path(settings.keystore_file).read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise TlsError(f"{_place(settings)}: {_reason(error)}; check the path and its permissions") from None
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    blocks = [block.partition(end)[0] for block in _lines(text).split(begin)[1:]]
    return "\n".join(f"{begin}{block}{end}" for block in blocks)


def _lines(text: str | None) -> str:
    """A properties file may hold PEM in one line, with the line breaks written as \\n."""
    return (text or "").replace("\\n", "\n")


def _place(settings: TlsSettings) -> str:
    if settings.keystore_file is not None:
        return f"ssl.keystore.location: {settings.keystore_file}"
    return "ssl.keystore.certificate.chain"


def _files_state(settings: TlsSettings) -> tuple[object, ...]:
    """Changes whenever one of the files does, also if another file takes its name."""
    state: list[object] = []
    for path in filter(None, (settings.keystore_file, settings.truststore_file)):
        try:
            stat = os.stat(path)
            state.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        except OSError:
            state.append(None)
    return tuple(state)


def readable_by_everyone(settings: TlsSettings) -> bool:
    """Whether every user of the machine can read the private key."""
    if settings.keystore_file is None:
        return False
    try:
        return bool(os.stat(settings.keystore_file).st_mode & 0o004)
    except OSError:
        return False


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__


class TlsSession:
    """Encrypts and decrypts for one connection. The caller moves the ciphertext to and from the socket.

    OpenSSL's part of it is made when the client's first record is complete: a client that begins a handshake and says
    nothing more costs the bytes that it has sent.
    """

    __slots__ = ("_context", "_first_record", "_incoming", "_object", "_outgoing", "is_ended", "is_established")
    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _object: ssl.SSLObject

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._first_record: bytearray | None = bytearray()  # None when it was complete
        self.is_established = False
        self.is_ended = False
        """The client has ended TLS and sends nothing more."""

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to compute."""
        return self._first_record is None

    def receive(self, ciphertext: memoryview) -> None:
        if self._first_record is None:
            self._incoming.write(ciphertext)
            return
        self._first_record += ciphertext
        if _is_complete(self._first_record):
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._object = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self._incoming.write(self._first_record)
            self._first_record = None

    def shake_hands(self) -> bool:
        """Goes on with the handshake. True when it is complete. Raises SSLError when it failed."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_established = True
        return True

    def read_into(self, buffer: memoryview) -> int:
        """Plaintext, as much as there is and fits: less than fits until more has been received, or at the end."""
        read = self._object.read  # one TLS record a call, and some clients send small ones
        size = len(buffer)
        filled = 0
        try:
            while filled < size:
                count: int = read(size - filled, buffer[filled:])  # type: ignore[assignment]
                if not count:
                    self.is_ended = True
                    break
                filled += count
        except ssl.SSLWantReadError:
            pass
        return filled

    def encrypt(self, plaintext: bytes | bytearray | memoryview) -> None:
        """The ciphertext is in `take_outgoing`."""
        self._object.write(plaintext)

    def end(self) -> None:
        """Answers the client's end of TLS; the answer is in `take_outgoing`."""
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()

    def take_outgoing(self) -> bytes:
        return self._outgoing.read() if self.has_begun else b""

    @property
    def client_name(self) -> str | None:
        """The distinguished name in the client's certificate; None without one."""
        certificate: dict[str, Any] | None = self._object.getpeercert()
        if not certificate:
            return None
        return distinguished_name(certificate["subject"])


def _is_complete(record: bytearray) -> bool:
    """Whether OpenSSL can do something with it: a whole record, or what is no handshake at all."""
    if record[0] != _HANDSHAKE_RECORD:
        return True
    if len(record) < _RECORD_HEADER_BYTES:
        return False
    size = int.from_bytes(record[3:_RECORD_HEADER_BYTES])
    return size > RECORD_BYTES_MAX or len(record) >= _RECORD_HEADER_BYTES + size
