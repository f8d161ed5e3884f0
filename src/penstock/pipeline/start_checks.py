"""What is checked of sources before a start: their topics exist, and are the topics that the checkpoint knows.

A topic that was deleted and created again has its old name and other records under the old offsets: resuming at the
checkpoint's offsets would skip records without a word. Offsets cannot show that once the new topic is as long as the
old one was; topic ids can. A running query compares ids itself; these checks cover the time between two runs.

Owns the messages of these refusals. Answers of brokers come from `Brokers`, which asks each cluster once in a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.brokers import Brokers
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.declaration.choice import nearest
from penstock.pipeline.declaration.spec import SOLE_SOURCE
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.sources.source import Source

_FILE: Final = "topics.json"

TopicIds = Mapping[str, str]
"""By topic. A topic whose broker gives no ids is not among them."""


def source_key(name: str) -> str:
    """The key of a source in a pipeline file."""
    return SOLE_SOURCE if name == SOLE_SOURCE else f"sources.{name}"


def check_topics(name: str, source: Source, brokers: Brokers) -> TopicIds:
    """Raises PipelineFailed unless the topics of a source can be read. Returns their ids."""
    if source.kafka is None:
        return {}
    key = source_key(name)
    topics = brokers.topics(key, brokers.of(source.kafka))
    for topic in source.named_topics:
        if topic not in topics:
            brokers.check_described(f"{key}.topic", topic, brokers.of(source.kafka), "Read")
            resembled = nearest(topic, [known for known, found in topics.items() if not found.is_internal])
            hint = f"did you mean '{resembled}'?" if resembled else f"create it: penstock topic create {topic}"
            raise PipelineFailed(f"{key}.topic: topic '{topic}' does not exist; {hint}", ExitCode.NOT_FOUND)
    return {
        topic: found.topic_id.hex() for topic, found in topics.items() if source.reads(topic) and any(found.topic_id)
    }


def check_topic_ids(checkpoint: Checkpoint, name: str, found: TopicIds) -> None:
    """Raises PipelineFailed if one of these is another topic than the one that the checkpoint's offsets belong to."""
    known = checkpoint.read(_FILE) or {}
    for topic, topic_id in found.items():
        if known.get(topic, topic_id) != topic_id:
            raise PipelineFailed(
                f"{source_key(name)}.topic: topic '{topic}' was deleted and created again since this pipeline has read"
                " it, and records of the old one that it had not read are gone; to read the new one from its beginning,"
                " name another directory with --checkpoint",
                ExitCode.SOURCE_LOST,
            )


def keep_topic_ids(checkpoint: Checkpoint, found: TopicIds) -> None:
    known = checkpoint.read(_FILE) or {}
    if any(topic not in known for topic in found):
        checkpoint.write(_FILE, {**found, **known})
