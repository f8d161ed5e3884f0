"""Brokers for tests: `Broker` is Penstock, `Cluster` several of it; `apache_kafka` has Apache Kafka.

Names are imported when they are used: a broker with faults is a module of this package and needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.testing.broker import Broker
    from penstock.testing.cluster import Cluster
    from penstock.testing.etcd import Etcd

__all__ = ["Broker", "Cluster", "Etcd"]

_MODULES: Final = {
    "Broker": "penstock.testing.broker",
    "Cluster": "penstock.testing.cluster",
    "Etcd": "penstock.testing.etcd",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
