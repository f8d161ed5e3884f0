"""Limits of connections and of what they may hold, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.quotas import DEFAULT, QuotaEntity
from penstock.metadata.changes import BrokerConfigChanged
from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from tests.simulation.node import SimulatedClient, Simulation, simulated
from tests.simulation.test_quotas import set_quota
from tests.wire_client import encode_request, framed


def is_served(client: SimulatedClient) -> bool:
    if not client.is_connected:
        return False
    return bool(client.ask(ApiVersionsRequest(), 0).error_code == 0)


def configure(simulation: Simulation, **configs: str) -> None:
    changed = {name.replace("_", "."): value for name, value in configs.items()}
    simulation.node.propose(lambda image: [BrokerConfigChanged(None, changed)], lambda error: None)
    simulation.loop.run_until_idle()


def test_a_broker_takes_no_more_connections_than_it_may(tmp_path: Path) -> None:
    with simulated(tmp_path, 1, max_connections="2") as simulation:
        first, second, third = (simulation.client(f"10.0.0.{number}") for number in (1, 2, 3))
        assert (is_served(first), is_served(second), is_served(third)) == (True, True, False)
        first.hang_up()
        assert is_served(simulation.client("10.0.0.4"))
        assert not is_served(simulation.client("10.0.0.5"))
        configure(simulation, max_connections="3")
        assert is_served(simulation.client("10.0.0.5"))


def test_an_address_holds_no_more_connections_than_it_may(tmp_path: Path) -> None:
    settings = {"max_connections_per_ip": "1", "max_connections_per_ip_overrides": "10.0.0.2:2, 10.0.0.3:0"}
    with simulated(tmp_path, 2, **settings) as simulation:
        taken = [is_served(simulation.client(f"10.0.0.{number}")) for number in (1, 1, 2, 2, 2, 3)]
        assert taken == [True, False, True, True, False, False]
        configure(simulation, max_connections_per_ip_overrides="10.0.0.3:1")
        assert is_served(simulation.client("10.0.0.3"))


def test_an_address_that_connects_too_often_waits_and_is_closed(tmp_path: Path) -> None:
    with simulated(tmp_path, 3, quota_window_num="2") as simulation:
        set_quota(simulation, QuotaEntity(ip=DEFAULT), connection_creation_rate=1)
        clients = [simulation.client("10.0.0.1") for _ in range(5)]
        for client in clients:
            client.send(ApiVersionsRequest(), 0)
        simulation.run_for(0.1)
        # Two windows of one second, and one more that overdraws them.
        assert [len(client.answers) for client in clients] == [1, 1, 1, 0, 0]
        assert [client.is_connected for client in clients] == [True] * 5
        assert is_served(simulation.client("10.0.0.2"))
        simulation.run_for(1)
        assert [client.is_connected for client in clients] == [True, True, True, False, False]
        assert is_served(simulation.client("10.0.0.1"))


@pytest.mark.parametrize(("idle_ms", "stays"), [("1000", False), ("-1", True)])
def test_an_idle_connection_is_closed(tmp_path: Path, idle_ms: str, stays: bool) -> None:
    with simulated(tmp_path, 4, connections_max_idle_ms=idle_ms) as simulation:
        simulation.server._schedule_idle_check()
        client = simulation.client("10.0.0.1")
        assert is_served(client)
        simulation.run_for(5)
        assert client.is_connected is stays


def test_incomplete_requests_take_no_more_memory_than_they_may(tmp_path: Path) -> None:
    settings = {"queued_max_request_bytes": "10000", "socket_request_max_bytes": "10000"}
    with simulated(tmp_path, 5, **settings) as simulation:
        clients = [simulation.client(f"10.0.0.{number}") for number in range(4)]
        begun = (8000).to_bytes(4, "big") + bytes(4)
        clients[0].deliver(begun)  # takes most of it
        clients[1].deliver(begun)  # some was left
        clients[2].deliver(begun)
        assert [client.is_read for client in clients] == [True, True, False, True]
        assert is_served(clients[3])  # a request that is complete needs none
        clients[0].hang_up()
        simulation.run_for(0.1)
        assert clients[2].is_read
        clients[1].hang_up()
        clients[2].hang_up()
        request = framed(encode_request(ApiVersionsRequest(), 0, 1))
        for _ in range(3):  # what was complete is released
            clients[3].deliver(request[:6])
            clients[3].deliver(request[6:])
            simulation.run_for(0.1)
        assert simulation.server.request_memory is not None
        assert simulation.server.request_memory._available_bytes == 10_000
