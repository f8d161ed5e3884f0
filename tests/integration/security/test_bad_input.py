"""A start with certificates, key sets and rules that cannot be used: one line, an exit code, and nothing done."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from tests.certificates import EXPIRED, Authority, new_authority
from tests.integration.security.secured_broker import broker_process


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return new_authority(tmp_path_factory.mktemp("authority"))


def expired(authority: Authority, _: Path) -> dict[str, str]:
    return {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(authority.issue("old", dates=EXPIRED))}


def without_key(authority: Authority, _: Path) -> dict[str, str]:
    authority.issue("half")
    return {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(authority.directory / "half.crt")}


def bad_rule(authority: Authority, _: Path) -> dict[str, str]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(authority.issue("good")),
        "ssl.principal.mapping.rules": "RULE:^CN=(.*/$1/",
    }


def malformed_keys(_: Authority, directory: Path) -> dict[str, str]:
    (directory / "keys.json").write_text('{"keys": [{"kty": "RSA", "kid": "k"}]}')
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
    }


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (expired, r"listener SSL: ssl.keystore.location: \S+: the certificate has expired; renew it"),
        (without_key, r"listener SSL: ssl.keystore.location: \S+: no usable private key and certificate; expected .*"),
        (bad_rule, r"listener SSL: ssl.principal.mapping.rules: .*"),
        (
            malformed_keys,
            r"listener SASL_PLAINTEXT: sasl.oauthbearer.jwks.endpoint.url: file:\S+: the RSA key 'k' lacks n, e; "
            "expected a JSON Web Key Set",
        ),
    ],
    ids=["expired certificate", "certificate without its key", "principal rule", "key set"],
)
def test_a_start_is_refused_with_one_line(
    made: Callable[[Authority, Path], dict[str, str]], message: str, authority: Authority, tmp_path: Path
) -> None:
    with broker_process(tmp_path / "broker", made(authority, tmp_path)) as broker:
        assert broker.stop() == ExitCode.BAD_CONFIGURATION
        [line] = broker.log.splitlines()
        assert re.fullmatch(f"penstock( broker)?: {message}", line), line
        assert not broker.data_dir.exists()


def test_a_listener_that_everyone_reaches_is_one_loud_line(authority: Authority, tmp_path: Path) -> None:
    """So are a certificate that clients will refuse, and secrets that every user of the machine can read."""
    keystore = authority.issue("elsewhere", hosts="DNS:elsewhere.example")
    keystore.chmod(0o644)
    properties = {
        "listeners": "SSL://0.0.0.0:0",
        "advertised.listeners": "SSL://localhost:0",
        "ssl.keystore.location": str(keystore),
        "ssl.key.password": "s3cret",
    }
    with broker_process(tmp_path, properties, mode=0o644) as broker:
        broker.await_ready()
        broker.stop()
        lines = [line.partition(" WARNING ")[2] for line in broker.log.splitlines() if " WARNING " in line]
    assert sorted(lines) == sorted(
        [
            "LISTENER WITHOUT AUTHENTICATION: everyone who can reach SSL://0.0.0.0:0 can read and write all that ACLs "
            "leave to User:ANONYMOUS; listen on 127.0.0.1, or use SASL_SSL",
            f"{keystore}: every user of this machine can read the private key; run chmod 600",
            f"{broker.properties_file}: every user of this machine can read ssl.key.password; run chmod 600",
            "listener SSL: the certificate is not for localhost, which clients are told; they will refuse it unless it "
            "names that host as a subject alternative name",
        ]
    )
