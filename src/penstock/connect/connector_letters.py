"""Dead letters of a worker's connectors, for its REST API: as `penstock dead-letters` shows and replays them.

Owns which letters belong to a connector: those of its dead letter topic that carry its name, since connectors may share
a topic. Reading and replaying is done by `client/dead_letters/`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.client.dead_letters.letter import DeadLetter
from penstock.client.dead_letters.replay import Replayed, replay, waiting_letters
from penstock.client.dead_letters.topics import DeadLetterTopics
from penstock.client.security_settings import in_librdkafka_names
from penstock.connect.herder.herder import ConnectRestError, Herder
from penstock.core.dead_letters import REPLAY_ATTEMPTS_MAX
from penstock.core.errors import UnknownTopic

TOPIC_PROPERTY: Final = "errors.deadletterqueue.topic.name"
_ID: Final = re.compile(r"(\d+)-(\d+)")


class ConnectorLetters:
    """Implements `rest.extensions.DeadLetters`. `client` has the worker's client settings, by Kafka's names."""

    def __init__(self, herder: Herder, client: Mapping[str, str]) -> None:
        self._herder = herder
        self._client = in_librdkafka_names(client)

    def list(self, connector: str, *, limit: int, after: str | None) -> Sequence[Mapping[str, Any]]:
        topic = self._topic(connector)
        behind = (-1, -1) if after is None else _place(after)
        found = []
        try:
            with DeadLetterTopics(self._client) as topics:
                for letter in waiting_letters(topics, topic, lambda letter: letter.pipeline == connector):
                    if (letter.partition, letter.offset) > behind:
                        found.append(_shown(letter))
                        if len(found) == limit:
                            break
        except UnknownTopic:
            return []  # it is created with the first letter
        return found

    def replay(
        self, connector: str, ids: Sequence[str] | None, *, max_attempts: int | None = None
    ) -> Mapping[str, Any]:
        topic = self._topic(connector)
        if max_attempts is None:
            max_attempts = REPLAY_ATTEMPTS_MAX if ids is None else 0
        wanted = None if ids is None else {_place(each) for each in ids}

        def choose(letter: DeadLetter) -> bool:
            return letter.pipeline == connector and (wanted is None or (letter.partition, letter.offset) in wanted)

        try:
            with DeadLetterTopics(self._client) as topics:
                done = replay(self._client, topics, topic, choose=choose, max_attempts=max_attempts)
        except UnknownTopic:
            done = Replayed()
        return {
            "replayed": done.letters,
            "unreplayable": done.unreplayable,
            "quarantined": done.quarantined,
            "by_topic": done.by_target,
        }

    def _topic(self, connector: str) -> str:
        topic = self._herder.connector(connector).config.get(TOPIC_PROPERTY, "").strip()
        if not topic:
            raise ConnectRestError(
                404, f"Connector {connector} has no dead letters; {TOPIC_PROPERTY} names their topic"
            )
        return topic


def _place(text: str) -> tuple[int, int]:
    found = _ID.fullmatch(text)
    if found is None:
        raise ConnectRestError(400, f"'{text}' is no id of a dead letter, as the list of dead letters shows them")
    return int(found[1]), int(found[2])


def _shown(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": f"{letter.partition}-{letter.offset}",
        "topic": letter.topic,
        "stage": letter.stage,
        "reason": letter.reason,
        "attempt": letter.attempt,
        "source": {"topic": letter.source_topic, "partition": letter.source_partition, "offset": letter.source_offset},
        "timestamp": letter.timestamp_ms,
        **_payload("key", letter.key),
        **_payload("value", letter.value),
    }


def _payload(name: str, payload: bytes | None) -> dict[str, str | None]:
    """As text where it is some; otherwise in base64, under another name."""
    if payload is None:
        return {name: None}
    try:
        return {name: payload.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(payload).decode("ascii")}
