"""One broker with every kind of listener for the tests of this directory.

Alice may write to and read from `orders`, with every group; clients without a name may do so with `public`. Mallory has
credentials and no rights.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.security_admin import SecurityAdmin
from penstock.core.acls import ANONYMOUS, ResourceType
from penstock.core.credentials import ScramMechanism
from tests.integration.security.secured_broker import PASSWORDS, Secured, all_of, secured_broker


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as running:
        admin = SecurityAdmin(running.settings("SASL_PLAINTEXT", "PLAIN", "admin"))
        admin.create_topic("orders")
        admin.create_topic("public")
        for user, password in PASSWORDS.items():
            for mechanism in ScramMechanism:
                admin.set_user(user, mechanism, password)
        admin.create_acls(
            [
                all_of(ResourceType.TOPIC, "orders", "User:alice"),
                all_of(ResourceType.GROUP, "*", "User:alice"),
                all_of(ResourceType.TRANSACTIONAL_ID, "*", "User:alice"),
                all_of(ResourceType.TOPIC, "public", ANONYMOUS),
                all_of(ResourceType.GROUP, "*", ANONYMOUS),
            ]
        )
        yield running
