"""Numbers into the source topic for as long as a soak runs; of a hundred, ten that no pipeline can read, and one for
which the transform fails.

It lives across the kills of its broker. What counts as input is what the topic holds at the end, not what this sent.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

from tests.pipeline.topic_contents import contents

PARTITIONS: Final = 4
# With these lengths a batch that catches up is staged by tables, and one that follows the feed travels in messages.
_WORD: Final = "number {number} " + "." * 400
FAILS: Final = "fails"
"""A word that is no word: the transform fails for it."""
WORD: Final = f"CASE WHEN word = '{FAILS}' THEN CAST(CAST(word AS INT) AS STRING) ELSE word END AS word"
_BURST_S: Final = 0.05
_DELIVERY_S_MAX: Final = 300


class Row(NamedTuple):
    """What a sink is to hold. Words are long, and only have to be equal."""

    number: int
    word_crc: int


def row_of(number: int, word: str) -> Row:
    return Row(number, zlib.crc32(word.encode()))


class Input(NamedTuple):
    good: Counter[Row]
    bad: Counter[bytes]


class NumberFeed:
    def __init__(self, servers: str, topic: str, *, per_second: int, first_number: int = 0) -> None:
        self._servers = servers
        self._topic = topic
        self._per_second = per_second
        self._first_number = first_number
        self.next_number = first_number
        """Behind the last one that was sent."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "message.timeout.ms": _DELIVERY_S_MAX * 1000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        begun = time.monotonic()
        while not self._stopped.wait(_BURST_S):
            due = self._first_number + (time.monotonic() - begun) * self._per_second
            while self.next_number < due:
                producer.produce(self._topic, _value(self.next_number), partition=self.next_number % PARTITIONS)
                self.next_number += 1
            producer.poll(0)
        producer.flush(_DELIVERY_S_MAX)

    def stop(self) -> None:
        """Returns when everything is in the topic."""
        self._stopped.set()
        self._thread.join()


def _value(number: int) -> bytes:
    if number % 10 == 3:
        return b"no number: %d" % number
    if number % 100 == 7:
        return json.dumps({"number": number, "word": FAILS}).encode()
    return json.dumps({"number": number, "word": _WORD.format(number=number)}).encode()


def input_of(servers: str, topic: str) -> Input:
    return _sorted_out(record.value or b"" for record in contents(servers, topic))


def _sorted_out(values: Iterable[bytes]) -> Input:
    found = Input(Counter(), Counter())
    for value in values:
        told: dict[str, Any] = json.loads(value) if value.startswith(b"{") else {"word": FAILS}
        if told["word"] == FAILS:
            found.bad[value] += 1
        else:
            found.good[row_of(told["number"], told["word"])] += 1
    return found
