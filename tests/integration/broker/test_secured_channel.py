"""Brokers reach each other over listeners with TLS and SASL, and refuse settings with which they could not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from penstock.broker.network.endpoints import advertised_endpoints, bind_all, close_all
from penstock.broker.network.server import Server
from penstock.broker.network.tls import ListenerTls
from penstock.broker.peers.channel import PeerChannel
from penstock.broker.peers.credentials import peer_credentials
from penstock.core.credentials import ScramMechanism
from penstock.core.ids import BrokerId
from penstock.metadata.changes import ScramCredentialSet
from penstock.metadata.config_definition import ConfigError
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.sasl_server import scram_credential
from tests.certificates import Authority, new_authority
from tests.unit.broker.nodes import commit_changes, config_of, node_in

TIMEOUT_S = 30.0
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return new_authority(tmp_path_factory.mktemp("authority"))


def tls(authority: Authority, hosts: str = "DNS:localhost,IP:127.0.0.1") -> dict[str, str]:
    name = f"broker-{len(list(authority.directory.iterdir()))}"
    return {
        "ssl.keystore.location": str(authority.issue(name, hosts=hosts)),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
    }


def sasl(mechanism: str = "PLAIN", password: str = "s3cret") -> dict[str, str]:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    users = 'user_broker="s3cret"' if mechanism == "PLAIN" else ""
    return {
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.internal.{mechanism.lower()}.sasl.jaas.config": (
            f'{module} required username="broker" password="{password}" {users};'
        ),
    }


def config_with(protocol: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        "listeners": "INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": f"INTERNAL:{protocol}",
        "inter.broker.listener.name": "INTERNAL",
        **settings,
    }


def ask(directory: Path, served: Mapping[str, str], own: Mapping[str, str]) -> None:
    """A broker with the settings `own` asks one with the settings `served`."""

    async def main() -> None:
        with node_in(directory, served) as node:
            credential = scram_credential(ScramMechanism.SCRAM_SHA_512, b"salt", 4096, "s3cret")
            commit_changes(node, ScramCredentialSet("broker", credential))
            [bound] = bind_all(node.config.listeners)
            tls_settings = node.config.listener_security["INTERNAL"].tls
            if tls_settings is not None:
                bound = replace(bound, tls=ListenerTls(tls_settings))
            endpoint = advertised_endpoints(node.config.advertised_listeners, [bound])["INTERNAL"]
            server = Server(node)
            await server.listen([bound])
            channel = PeerChannel(BrokerId(2), lambda: endpoint, peer_credentials(config_of(own)), "broker-1", "0")
            try:
                response = await channel.request(MetadataRequest(topics=[]), timeout_s=TIMEOUT_S)
                assert response.cluster_id == node.image.cluster_id
            finally:
                channel.close()
                server.close()
                close_all([bound])

    uvloop.run(main())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_brokers_log_in(tmp_path: Path, authority: Authority, protocol: str, mechanism: str) -> None:
    settings = config_with(protocol, {**sasl(mechanism), **(tls(authority) if protocol == "SASL_SSL" else {})})
    ask(tmp_path, settings, settings)


def test_brokers_show_each_other_their_certificates(tmp_path: Path, authority: Authority) -> None:
    settings = config_with("SSL", tls(authority))
    ask(tmp_path, settings, settings)


def test_a_certificate_for_another_host_is_refused(tmp_path: Path, authority: Authority) -> None:
    settings = config_with("SSL", tls(authority, hosts="DNS:elsewhere.example"))
    with pytest.raises(BrokerError, match=r"broker 2 cannot be reached: .*certificate") as refused:
        ask(tmp_path, settings, settings)
    assert refused.value.code == ErrorCode.NETWORK_EXCEPTION


def test_a_certificate_for_another_host_is_accepted_where_hosts_are_not_checked(
    tmp_path: Path, authority: Authority
) -> None:
    settings = config_with("SSL", tls(authority, hosts="DNS:elsewhere.example"))
    ask(tmp_path, settings, {**settings, "ssl.endpoint.identification.algorithm": ""})


def test_an_authority_that_nobody_named_is_refused(tmp_path: Path, authority: Authority) -> None:
    stranger = new_authority(tmp_path / "stranger")
    settings = config_with("SSL", tls(authority))
    with pytest.raises(BrokerError, match=r"broker 2 cannot be reached: .*certificate"):
        ask(tmp_path / "data", settings, {**settings, "ssl.truststore.location": str(stranger.certificate)})


def test_a_wrong_password_is_refused_and_not_shown(tmp_path: Path) -> None:
    settings = config_with("SASL_PLAINTEXT", sasl())
    with pytest.raises(BrokerError, match="broker 2 cannot be reached") as refused:
        ask(tmp_path, settings, config_with("SASL_PLAINTEXT", sasl(password="wr0ng")))
    assert "wr0ng" not in refused.value.message


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"sasl.mechanism.inter.broker.protocol": ""}, "sasl.mechanism.inter.broker.protocol"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "add it to sasl.enabled.mechanisms"),
        (
            {"listener.name.internal.plain.sasl.jaas.config": f'{PLAIN} required user_broker="s3cret";'},
            "username and password are missing",
        ),
    ],
)
def test_settings_that_reach_no_broker_are_refused_in_one_line(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as refused:
        peer_credentials(config_of({**config_with("SASL_PLAINTEXT", sasl()), **settings}))
    assert "\n" not in str(refused.value)
    assert "s3cret" not in str(refused.value)
