"""Where secrets of a running broker are looked for: its log, its files, its command line, its answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from penstock.core.errors import AccessDenied
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WireClient
from tests.integration.security.secured_broker import PASSWORDS, Secured

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TIMEOUT_S = 30


@pytest.fixture
def secrets(secured: Secured) -> list[bytes]:
    """All that clients have sent by now: passwords, right and wrong, and tokens."""
    sent = [*PASSWORDS.values(), "wrong-s3cret"]
    for mechanism in MECHANISMS:
        for right in (True, False):
            settings = secured.settings("SASL_SSL", mechanism)
            if mechanism == "OAUTHBEARER":
                if not right:
                    settings["sasl.oauthbearer.token"] = secured.issuer.token(aud="other")
                sent.append(settings["sasl.oauthbearer.token"])
            elif not right:
                settings["sasl.password"] = "wrong-s3cret"
            with WireClient(settings) as client:
                if right:
                    client.metadata(["orders"])
                else:
                    with pytest.raises((BrokerError, AccessDenied)):
                        client.metadata(["orders"])
    return [secret.encode() for secret in sent]


def test_no_secret_is_in_the_log(secured: Secured, secrets: list[bytes]) -> None:
    log = secured.broker.log.encode()
    assert b"authentication failed" in log
    assert [secret for secret in secrets if secret in log] == []


def test_no_secret_is_on_a_command_line_or_in_the_environment(secured: Secured, secrets: list[bytes]) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            shown = (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        assert [secret for secret in secrets if secret in shown] == [], shown
    environment = Path(f"/proc/{secured.broker.process.pid}/environ").read_bytes()
    assert [secret for secret in secrets if secret in environment] == []


def test_files_hold_keys_that_only_their_owner_reads_and_no_password(secured: Secured, secrets: list[bytes]) -> None:
    files = [file for file in secured.broker.data_dir.rglob("*") if file.is_file()]
    contents = {file: file.read_bytes() for file in files}
    assert [file for file in files if any(secret in contents[file] for secret in secrets)] == []
    # What a salted password turns into is there, and would let its reader pose as the broker.
    with_keys = [file for file in files if b"server_key" in contents[file].lower() or _has_keys(contents[file])]
    assert with_keys != []
    assert [file for file in with_keys if file.stat().st_mode & 0o077] == []


def _has_keys(content: bytes) -> bool:
    return b"ServerKey" in content or b"StoredKey" in content


def test_no_secret_is_described(secured: Secured, secrets: list[bytes]) -> None:
    admin = AdminClient({**secured.settings("SASL_SSL", "PLAIN", "admin")})
    [node] = admin.list_topics(timeout=TIMEOUT_S).brokers
    [described] = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(node))]).values()
    entries = described.result(TIMEOUT_S)
    text = "\n".join(f"{name}={entry.value}" for name, entry in entries.items()).encode()
    assert b"listeners" in text
    assert [secret for secret in secrets if secret in text] == []
    assert all(entry.value is None for entry in entries.values() if entry.is_sensitive)
