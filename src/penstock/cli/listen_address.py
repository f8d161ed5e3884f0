"""Addresses that options such as `--listen` and `--metrics` name. No heavy imports: `penstock broker` uses it."""

from __future__ import annotations

from typing import Final

from penstock.cli.command_error import usage_error
from penstock.core.addresses import DEFAULT_HOST, DEFAULT_PORT, parse_host_port

METRICS_PORT: Final = 9404  # the usual one of Kafka's JMX exporter


def parse_address(text: str, option: str, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Host and port. A number alone is a port of this machine only, as in many tools."""
    if text.isdecimal():
        text = f"{DEFAULT_HOST}:{text}"
    elif ":" not in text or text.endswith("]"):
        text = f"{text}:{default_port}"
    try:
        return parse_host_port(text)
    except ValueError as mistake:
        raise usage_error(f"{option} {mistake}") from mistake
