"""TLS contexts from Kafka's settings."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidClientSetting
from penstock.wire.settings import TlsSettings
from penstock.wire.tls import tls_context


def test_certificates_that_cannot_be_loaded_are_named() -> None:
    with pytest.raises(InvalidClientSetting, match=r"ssl\.ca\.location.*No such file"):
        tls_context(TlsSettings(ca_file="/no/such/file.pem"))
    with pytest.raises(InvalidClientSetting, match=r"ssl\.ca\.location"):
        tls_context(TlsSettings(ca_pem="this is no certificate"))
    with pytest.raises(InvalidClientSetting, match=r"ssl\.certificate\.location") as refused:
        tls_context(TlsSettings(certificate_pem="none", key_pem="hush-hush", key_password="hush-hush"))
    assert "hush-hush" not in str(refused.value)
