"""A source cluster with TLS, SASL and ACLs; a target whose topics get the ACLs of their sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.client.security_admin import SecurityAdmin
from penstock.connect.connectors.mirror.source import MirrorSourceConnector
from penstock.core.acls import AclBinding, AclOperation, AclPermission, ResourcePattern, ResourceType
from penstock.metadata.broker_config_definitions import STANDARD_AUTHORIZER
from penstock.security.acl_filters import AclFilter
from penstock.testing import Broker
from penstock.wire.client import WireClient
from tests.integration.connect.mirror.clusters import EXACTLY_ONCE, Mirror, await_records, eventually
from tests.integration.connect.workers import BROKER_CONFIG
from tests.integration.security.secured_broker import all_of, secured_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_secured_source_and_the_acls_of_its_topics(tmp_path: Path) -> None:
    with_acls = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with secured_broker(tmp_path) as secured, Broker(config={**BROKER_CONFIG, **with_acls}) as target:
        settings = secured.settings("SASL_SSL", "PLAIN", "admin")
        admin = SecurityAdmin(settings)
        admin.create_topic("orders")
        admin.create_acls([all_of(ResourceType.TOPIC, "orders", "User:alice")])
        producer = Producer(settings)
        producer.produce("orders", b"value", b"key")
        assert producer.flush(30) == 0
        properties = {f"source.cluster.{name}": value for name, value in settings.items()}
        mirror = Mirror(settings["bootstrap.servers"], target.bootstrap_servers, EXACTLY_ONCE)
        assert MirrorSourceConnector.check(mirror.config("Source", properties)) == []
        copied = AclBinding(
            ResourcePattern(ResourceType.TOPIC, "a.orders"), "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
        )
        with (
            WireClient({"bootstrap.servers": target.bootstrap_servers}) as client,
            mirror.running("Source", properties, topics="orders"),
        ):
            await_records(target.bootstrap_servers, "a.orders", 1)
            eventually("no ACL", lambda: client.describe_acls(AclFilter()) == [copied])
        wrong = {**properties, "source.cluster.sasl.password": "not-the-password"}
        (mistake,) = MirrorSourceConnector.check(mirror.config("Source", wrong))
        assert mistake.name == "source.cluster.bootstrap.servers"
        assert "not-the-password" not in str(mistake)
