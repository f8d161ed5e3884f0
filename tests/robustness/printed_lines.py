"""What a broker has printed although nothing was wrong with it."""

from __future__ import annotations

from typing import Final

from penstock.testing import Broker

# That it is ready, and that a topic asks for something that it cannot do yet.
_EXPECTED: Final = ("listening on", "settings without effect in this version")


def unexpected_lines(broker: Broker) -> list[str]:
    return [line for line in broker.stderr_text().splitlines() if not any(text in line for text in _EXPECTED)]
