"""A broker that goes away is noticed by its connection, over real sockets."""

from __future__ import annotations

import socket

from penstock.pipeline.reachability import BrokerWatch


def listening(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def test_a_broker_that_ends_is_noticed_and_so_is_its_return() -> None:
    broker = listening()
    port = broker.getsockname()[1]
    watch = BrokerWatch([("127.0.0.1", port)])
    assert watch.look() is None
    accepted, _ = broker.accept()
    assert watch.look() is None
    broker.close()
    accepted.close()
    reason = watch.look()
    assert reason is not None
    assert f"127.0.0.1:{port} (connection refused)" in reason
    assert watch.look() == reason
    broker = listening(port)
    assert watch.look() is None
    watch.close()
    broker.close()


def test_a_connection_that_a_living_broker_closes_is_made_again() -> None:
    with listening() as broker:
        watch = BrokerWatch([broker.getsockname()])
        assert watch.look() is None
        broker.accept()[0].close()
        assert watch.look() is None
        broker.accept()[0].close()
        watch.close()


def test_one_broker_of_several_is_enough() -> None:
    with listening() as broker, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        watch = BrokerWatch([unused.getsockname(), broker.getsockname()])
        assert watch.look() is None
        watch.close()


def test_all_of_them_are_named_when_none_is_there() -> None:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        reason = BrokerWatch([one.getsockname(), other.getsockname()]).look()
        assert reason is not None
        for unused in (one, other):
            assert f"127.0.0.1:{unused.getsockname()[1]} (connection refused)" in reason
