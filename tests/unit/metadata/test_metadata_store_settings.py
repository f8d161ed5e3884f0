"""`metadata.store` and its neighbours: what they mean, and one line for what does not fit."""

from __future__ import annotations

import pytest

from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_definition import ConfigError


def load(*settings: str) -> BrokerConfig:
    return BrokerConfig.load(overrides=["node.id=1", *settings])


def test_a_broker_without_the_setting_has_no_cluster() -> None:
    assert load().metadata_store is None


@pytest.mark.parametrize(
    ("address", "members", "prefix"),
    [
        ("etcd://a:1", (("a", 1),), "/penstock/"),
        ("etcd://a", (("a", 2379),), "/penstock/"),
        ("etcd://a:1,b.example.org:2, 10.0.0.3", (("a", 1), ("b.example.org", 2), ("10.0.0.3", 2379)), "/penstock/"),
        ("etcd://[::1]:1,[fe80::2]/x", (("::1", 1), ("fe80::2", 2379)), "/penstock/x/"),
        ("etcd://a:1/", (("a", 1),), "/penstock/"),
        ("etcd://a:1/one/two/", (("a", 1),), "/penstock/one/two/"),
    ],
)
def test_an_address_names_members_and_a_prefix(address: str, members: tuple[tuple[str, int], ...], prefix: str) -> None:
    settings = load(f"metadata.store={address}").metadata_store
    assert settings is not None
    assert (settings.members, settings.prefix) == (members, prefix)
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (9000, 2000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["metadata.store=zookeeper://a:2181"], "is not an address of etcd; write etcd://host:port"),
        (["metadata.store=localhost:2379"], "is not an address of etcd"),
        (["metadata.store=etcd://"], "is not host:port"),
        (["metadata.store=etcd://a:0"], "is not host:port"),
        (["metadata.store=etcd://a:70000"], "is not host:port"),
        (["metadata.store=etcd://a:1,,b:2"], "is not host:port"),
        (["metadata.store=etcd://a b:1"], "is not host:port"),
        (["metadata.store=etcd://a:1/x?y"], "is not a prefix"),
        (["metadata.store=etcd://a:1//x"], "is not a prefix"),
        (["metadata.store=etcd://user:secret@a:1"], "a password in an address ends up in logs"),
        (["metadata.store=etcd://a:1", "metadata.store.user=u"], "belong together; set both or none"),
        (["metadata.store=etcd://a:1", "metadata.store.ssl.truststore.location=/ca.pem"], "set it to true"),
        (["metadata.store=etcd://a:1", "broker.heartbeat.interval.ms=4000"], "must be at least 3 times"),
    ],
)
def test_what_does_not_fit_is_one_line(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        load(*settings)
    assert "\n" not in str(refused.value)


def test_a_broker_of_a_cluster_needs_an_id_of_its_own() -> None:
    with pytest.raises(ConfigError, match=r"metadata\.store: a broker of a cluster needs an id of its own; set"):
        BrokerConfig.load(overrides=["metadata.store=etcd://a:1"])
    assert BrokerConfig.load(overrides=["metadata.store=etcd://a:1", "broker.id=3"]).node_id == 3
