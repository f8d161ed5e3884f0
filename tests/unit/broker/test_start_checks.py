"""What a start says about its listeners before it serves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.main import _open_certificates, _warn_of_open_listeners
from penstock.broker.start_error import StartError
from penstock.core.exit_codes import ExitCode
from penstock.metadata.broker_config import BrokerConfig
from tests.certificates import EXPIRED, Authority, new_authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return new_authority(tmp_path_factory.mktemp("authority"))


def config(*lines: str) -> BrokerConfig:
    return BrokerConfig.load(properties_text="\n".join(lines))


@pytest.mark.parametrize(
    ("lines", "open_listeners"),
    [
        (["listeners=PLAINTEXT://127.0.0.1:9092"], 0),
        (["listeners=PLAINTEXT://localhost:9092"], 0),
        (["listeners=PLAINTEXT://[::1]:9092"], 0),
        (["listeners=PLAINTEXT://:9092"], 1),
        (["listeners=PLAINTEXT://0.0.0.0:9092"], 1),
        (["listeners=PLAINTEXT://10.0.0.1:9092"], 1),
        (["listeners=SASL_PLAINTEXT://:9092", "sasl.enabled.mechanisms=SCRAM-SHA-256"], 0),
        (["listeners=SSL://:9092", "ssl.keystore.location=/k"], 1),
        (
            ["listeners=SSL://:9092", "ssl.keystore.location=/k", "ssl.client.auth=required",
             "ssl.truststore.location=/t"],
            0,
        ),
        (
            ["listeners=A://:9092,B://:9093", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"],
            2,
        ),
    ],
)  # fmt: skip
def test_a_listener_without_authentication_beyond_loopback_is_one_loud_line(
    lines: list[str], open_listeners: int, caplog: pytest.LogCaptureFixture
) -> None:
    _warn_of_open_listeners(config(*lines))
    said = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == open_listeners
    assert all(record.getMessage().startswith("LISTENER WITHOUT AUTHENTICATION: ") for record in said)
    assert not any("\n" in record.getMessage() for record in said)


def test_certificates_are_opened_before_anything_else(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keystore = authority.issue("ok")
    opened = _open_certificates(config("listeners=SSL://localhost:9092", f"ssl.keystore.location={keystore}"))
    assert list(opened) == ["SSL"]
    assert caplog.records == []
    expired = authority.issue("expired", dates=EXPIRED)
    with pytest.raises(StartError, match=r"listener SSL: .*the certificate has expired") as refused:
        _open_certificates(config("listeners=SSL://localhost:9092", f"ssl.keystore.location={expired}"))
    assert refused.value.exit_code is ExitCode.BAD_CONFIGURATION


def test_a_certificate_for_another_host_and_a_public_key_are_named(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    keystore = authority.issue("public", hosts="DNS:elsewhere.example")
    keystore.chmod(0o644)
    _open_certificates(config("listeners=SSL://localhost:9092", f"ssl.keystore.location={keystore}"))
    public, other = [record.getMessage() for record in caplog.records]
    assert public == f"{keystore}: every user of this machine can read the private key; run chmod 600"
    assert other.startswith("listener SSL: the certificate is not for localhost, which clients are told;")
