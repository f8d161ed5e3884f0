"""What this software tells a broker about itself when it connects (KIP-511)."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def software_version() -> str:
    """In the characters that brokers accept."""
    try:
        installed = version("penstock")
    except PackageNotFoundError:  # a Spark worker that received the modules without the package's metadata
        installed = "0"
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in installed)
