"""Hosts and ports as text."""

from __future__ import annotations

import pytest

from penstock.core.addresses import host_port_text, parse_bootstrap_servers, parse_host_port


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:1234", ("localhost", 1234)),
        ("localhost", ("localhost", 9092)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
        ("PLAINTEXT://kafka:9092", ("kafka", 9092)),
    ],
)
def test_what_is_an_address(text: str, expected: tuple[str, int]) -> None:
    assert parse_host_port(text) == expected


@pytest.mark.parametrize("text", ["", ":9092", "host:", "host:x", "host:-1", "host:65536", "::1", "a:b:c", "host:٣"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_host_port(text)


def test_several_servers() -> None:
    assert parse_bootstrap_servers("a:1, b , ,[::1]:3") == [("a", 1), ("b", 9092), ("::1", 3)]
    with pytest.raises(ValueError, match="contains no server"):
        parse_bootstrap_servers(" , ")


@pytest.mark.parametrize("address", [("localhost", 1), ("::1", 9092)])
def test_text_and_back(address: tuple[str, int]) -> None:
    assert parse_host_port(host_port_text(*address)) == address


def test_a_number_alone_is_told_from_a_host() -> None:
    """The system would take 80 for the address 0.0.0.80."""
    with pytest.raises(ValueError, match=r"'80' is a port without a host; write HOST:80, as in 127\.0\.0\.1:80"):
        parse_host_port("80")
