"""Which batches of a pipeline are in its topic, as far as the broker and the checkpoint both know it.

What the broker may have forgotten: a topic sink recognises a batch that Spark runs a second time by an offset of the
group `<pipeline>.batches`. Brokers forget the offsets of a group that nobody commits to (`offsets.retention.minutes`,
seven days unless it is set). That is no harm while Spark's own log says that the last batch is done. A pipeline that
was killed between the two commits and is started again after that time cannot know whether its last batch is there, so
it asks rather than guesses.

What the checkpoint may not know: batches that are in the topic, if it is a copy from before them.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.exit_codes import ExitCode
from penstock.core.ids import TopicPartition
from penstock.pipeline.brokers import asking
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.declaration.sink_spec import TopicSink
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.topics.batch_ledger import LedgerEntry
from penstock.pipeline.topics.errors import TopicSinkError


def require_memory_of_batches(
    spec: PipelineSpec, sink: TopicSink, kafka: Mapping[str, str], checkpoint: Checkpoint
) -> None:
    """Raises PipelineFailed if a batch was begun, and the broker no longer knows whether it was committed; or if one
    was committed that the checkpoint does not know."""
    if spec.guarantee == "at_least_once":
        return
    if not checkpoint.exists("metadata"):
        return  # nothing was ever begun with it
    group = f"{spec.name}.batches"
    place = TopicPartition(sink.topic, 0)
    with asking("sink.topic", kafka) as client:
        # A driver that was killed leaves a transaction open, which the claim of this run will end; what was committed
        # before it is enough to know that nothing is forgotten.
        committed = client.offset_fetch(group, [place], require_stable=False).get(place)
    if committed is not None:
        try:
            entry = LedgerEntry.from_offset(committed, group)
        except TopicSinkError as mistake:
            raise PipelineFailed(f"sink.topic: {mistake}", ExitCode.SINK_REFUSED) from mistake
        checkpoint.require_planned(entry.batch_id, entry.query_id, f"topic '{sink.topic}'")
        return
    batch_id = checkpoint.unfinished_batch()
    if batch_id is None:
        return
    raise PipelineFailed(
        f"sink.topic: batch {batch_id} was begun before the pipeline was interrupted, and the broker has forgotten"
        f" whether topic '{sink.topic}' holds it: group '{group}' was deleted, or has expired"
        " (offsets.retention.minutes). Look for its rows; run once with guarantee: at_least_once to write them, perhaps"
        " again, or name another directory with --checkpoint to begin anew",
        ExitCode.SINK_REFUSED,
    )
