"""Binding listeners, and what clients are told of them."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from penstock.broker.network.endpoints import advertised_endpoints, bind_all, close_all
from penstock.metadata.changes import Endpoint
from penstock.metadata.listeners import Listener
from penstock.monitoring.listening import CannotListen


def test_every_listener_gets_a_socket_and_port_0_the_one_that_was_bound() -> None:
    listeners = [Listener("A", "127.0.0.1", 0), Listener("B", "127.0.0.1", 0)]
    bound = bind_all(listeners)
    try:
        assert [listener.name for listener in bound] == ["A", "B"]
        assert bound[0].port != bound[1].port
        assert advertised_endpoints(listeners, bound) == {
            "A": Endpoint("127.0.0.1", bound[0].port),
            "B": Endpoint("127.0.0.1", bound[1].port),
        }
    finally:
        close_all(bound)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_every_interface_is_advertised_as_this_machine(host: str) -> None:
    bound = bind_all([Listener("A", "127.0.0.1", 0)])
    try:
        endpoints = advertised_endpoints([Listener("A", host, 1234)], bound)
        assert endpoints == {"A": Endpoint(socket.gethostname(), 1234)}
    finally:
        close_all(bound)


def test_one_taken_address_releases_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        free_port, taken_port = free.getsockname()[1], taken.getsockname()[1]
        free.close()
        with pytest.raises(CannotListen, match=rf"cannot listen on 127\.0\.0\.1:{taken_port}: .*already in use"):
            bind_all([Listener("A", "127.0.0.1", free_port), Listener("B", "127.0.0.1", taken_port)])
        close_all(bind_all([Listener("A", "127.0.0.1", free_port)]))


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EADDRINUSE, "the address is already in use; stop the process that uses it, or choose another port"),
        (errno.EADDRNOTAVAIL, "192.0.2.1 is not an address of this machine; listen on 127.0.0.1, on 0.0.0.0 for every"),
        (errno.EACCES, "permission denied; ports below 1024 need privileges: choose another than 80"),
        (errno.EAFNOSUPPORT, "Address family not supported by protocol; choose another address with --listen"),
    ],
)
def test_each_reason_has_its_own_remedy(number: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_socket: socket.socket, _address: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(CannotListen) as refused:
        bind_all([Listener("A", "192.0.2.1", 80)])
    assert str(refused.value).startswith(f"cannot listen on 192.0.2.1:80: {said}")


def test_an_address_of_another_machine_is_not_in_use() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1 is not an address of this machine"):
        bind_all([Listener("A", "192.0.2.1", 0)])


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(CannotListen, match=r"the name no\.such\.host\.invalid does not resolve"):
        bind_all([Listener("A", "no.such.host.invalid", 0)])
