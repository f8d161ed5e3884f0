"""Our own clients on librdkafka, which goes on trying if it is refused: what they say."""

from __future__ import annotations

import pytest

from penstock.client.admin import Admin
from penstock.core.errors import AccessDenied
from tests.integration.security.secured_broker import Secured

TIMEOUT_S = 3


def test_an_admin_client_with_a_wrong_password_is_denied(secured: Secured) -> None:
    settings = secured.settings("SASL_SSL", "SCRAM-SHA-512") | {"sasl.password": "wrong-s3cret"}
    with pytest.raises(AccessDenied, match=r"listing topics: .*Authentication failed") as refused:
        Admin(settings, timeout_s=TIMEOUT_S).list_topics()
    assert "wrong-s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_admin_client_that_does_not_trust_the_broker_says_so(secured: Secured) -> None:
    foreign = secured.foreign_certificate.parent / "ca.pem"
    settings = secured.settings("SASL_SSL", "SCRAM-SHA-512") | {"ssl.ca.location": str(foreign)}
    with pytest.raises(AccessDenied, match="certificate verify failed"):
        Admin(settings, timeout_s=TIMEOUT_S).list_topics()
