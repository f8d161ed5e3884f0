"""The line of a broker that accepts connections says where it listens and what clients are told."""

from __future__ import annotations

import pytest

from penstock.broker.main import Ready


@pytest.mark.parametrize(
    ("ready", "line"),
    [
        (Ready("127.0.0.1:9092", "127.0.0.1", 9092), "listening on 127.0.0.1:9092"),
        (Ready("0.0.0.0:9092", "broker", 9092), "listening on 0.0.0.0:9092, advertised as broker:9092"),
        (Ready("[::]:9092", "::1", 19092), "listening on [::]:9092, advertised as [::1]:19092"),
    ],
)
def test_an_advertised_address_that_differs_is_named(ready: Ready, line: str) -> None:
    assert str(ready) == line
