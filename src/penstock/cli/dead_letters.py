"""`penstock dead-letters list|show|replay`: what pipelines, connectors and consumers could not process; a second try.

Owns the flags and the output; `client/dead_letters/` reads and replays.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.command_error import usage_error
from penstock.cli.connection import connected
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties, examples
from penstock.cli.record_format import json_field
from penstock.core.connect_dead_letters import STAGES as CONNECT_STAGES
from penstock.core.dead_letters import REPLAY_ATTEMPTS_MAX

if TYPE_CHECKING:
    from penstock.client.dead_letters.done import Done
    from penstock.client.dead_letters.letter import DeadLetter
    from penstock.client.dead_letters.replay import Replayed
    from penstock.client.dead_letters.topics import DeadLetterTopics

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="A dead-letter topic.")]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Only letters whose reason contains this.")
]
Stage = Annotated[
    str | None,
    typer.Option(
        "--stage",
        metavar="STAGE",
        help="Only letters of: parse, expect, transform, handle, or a stage of Kafka Connect such as VALUE_CONVERTER.",
    ),
]
PipelineName = Annotated[
    str | None, typer.Option("--pipeline", metavar="NAME", help="Only letters of this pipeline, connector or group.")
]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only this partition of TOPIC.")
]
Offsets = Annotated[
    str | None, typer.Option("--offset", "-o", metavar="N or A-B", help="Only these offsets of TOPIC; B included.")
]

_STAGES: Final = ("parse", "expect", "transform", "handle", *CONNECT_STAGES)


def build() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, help="List, show and replay dead letters.")
    commands: dict[str, tuple[Callable[..., Any], str]] = {
        "list": (
            list_topics,
            examples("penstock dead-letters list", "penstock dead-letters list revenue.dlq --json"),
        ),
        "show": (
            show,
            examples(
                "penstock dead-letters show revenue.dlq",
                "penstock dead-letters show revenue.dlq --stage transform --json | jq .value",
                "penstock dead-letters show revenue.dlq -p 0 -o 17",
            ),
        ),
        "replay": (
            replay_letters,
            examples(
                "penstock dead-letters replay revenue.dlq --dry-run           what it would write, and where",
                "penstock dead-letters replay revenue.dlq                     back to the topics they were read from",
                "penstock dead-letters replay revenue.dlq --reason 'amount'   some of them; the others stay",
                "penstock dead-letters replay revenue.dlq --to orders.retry",
                "penstock dead-letters replay revenue.dlq -o 17               this one, however often it failed",
            )
            + "\n\n\b\nA replayed letter is marked as done in the same transaction; it is replayed once, also if the\n"
            "command is killed. The pipeline reads the records when it runs; so do other readers of the topic.\n"
            "A record that fails again is a letter with the next attempt number; after --max-attempts replays it\n"
            "stays, until it is chosen with --offset or --max-attempts 0.",
        ),
    }
    for name, (command, epilog) in commands.items():
        app.command(name, epilog=epilog)(command)
    return app


def list_topics(
    *,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC...", show_default=False, help="Default: all topics that end with dead letters."),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Count dead letters by pipeline, stage and reason."""
    from penstock.client.dead_letters.topics import DeadLetterTopics

    with (
        connected(bootstrap_server, client_properties) as configuration,
        DeadLetterTopics(configuration) as reader,
        DeadLetterTopics(configuration) as originals,
    ):
        names = topics or reader.names()
        for place in reader.unreadable:
            print(f"penstock: {place}: its records cannot be read; it is left out", file=sys.stderr)
        counts: list[dict[str, Any]] = []
        for topic in names:
            counts += _counts_of(reader, originals, topic)
    if as_json:
        print(json.dumps(counts, ensure_ascii=False))
        return
    if not counts:
        print("no dead letters", file=sys.stderr)
        return
    _print_table(("topic", "pipeline", "stage", "letters", "waiting", "attempt", "reason"), counts)


def _counts_of(reader: DeadLetterTopics, originals: DeadLetterTopics, topic: str) -> list[dict[str, Any]]:
    from penstock.client.dead_letters.done import Done
    from penstock.client.dead_letters.originals import with_attempts

    done = reader.done(topic)
    # Before the first replay there are no attempts, and no records have to be read for them.
    was_replayed = any(each != Done() for each in done.values())
    found: Counter[tuple[str, str, str]] = Counter()
    waiting: Counter[tuple[str, str, str]] = Counter()
    attempts: Counter[tuple[str, str, str]] = Counter()
    letters = reader.letters(topic)
    for letter in with_attempts(originals, letters, lambda letter: was_replayed and not _is_done(letter, done)):
        kind = (letter.pipeline or "", letter.stage or "", letter.kind)
        found[kind] += 1
        if not _is_done(letter, done):
            waiting[kind] += 1
            attempts[kind] = max(attempts[kind], letter.attempt)
    return [_count(topic, kind, number, waiting[kind], attempts[kind]) for kind, number in found.most_common()]


def show(
    *,
    topic: TopicArgument,
    reason: Reason = None,
    stage: Stage = None,
    pipeline: PipelineName = None,
    partition: Partition = None,
    offsets: Offsets = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, metavar="N", help="Show at most this many.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also letters that were replayed.")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Print dead letters with their positions, reasons and values."""
    from penstock.client.dead_letters.originals import with_attempts
    from penstock.client.dead_letters.topics import DeadLetterTopics

    choose = _choice(reason, stage, pipeline, partition, offsets)
    with (
        connected(bootstrap_server, client_properties) as configuration,
        DeadLetterTopics(configuration) as reader,
        DeadLetterTopics(configuration) as originals,
    ):
        done = reader.done(topic)
        wanted = (
            letter for letter in reader.letters(topic) if choose(letter) and (everything or not _is_done(letter, done))
        )
        shown = 0
        for letter in with_attempts(originals, islice(wanted, count)):
            _print_letter(letter, is_done=_is_done(letter, done), as_json=as_json)
            shown += 1
    if not shown and not as_json:
        print("no dead letters", file=sys.stderr)


def replay_letters(
    *,
    topic: TopicArgument,
    target: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="Write here. Default: the partition that each was read from."),
    ] = None,
    reason: Reason = None,
    stage: Stage = None,
    pipeline: PipelineName = None,
    partition: Partition = None,
    offsets: Offsets = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            "--max-attempts",
            min=0,
            metavar="N",
            help=f"Leave letters alone that were replayed N times before; 0: no limit. Default: {REPLAY_ATTEMPTS_MAX},"
            " and no limit with --offset.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be replayed; write nothing.")] = False,
    chunk_letters: Annotated[
        int, typer.Option("--batch-size", min=1, metavar="N", help="Letters per transaction.")
    ] = 500,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Write dead letters back to the topics that they were read from, and mark them as done."""
    from penstock.client.dead_letters.originals import with_attempts
    from penstock.client.dead_letters.replay import is_quarantined, replay, waiting_letters
    from penstock.client.dead_letters.topics import DeadLetterTopics

    choose = _choice(reason, stage, pipeline, partition, offsets)
    if target == topic:
        raise usage_error(f"--to {target}: letters cannot be replayed into their own topic")
    if max_attempts is None:
        max_attempts = REPLAY_ATTEMPTS_MAX if offsets is None else 0
    with connected(bootstrap_server, client_properties) as configuration, DeadLetterTopics(configuration) as reader:
        if target is not None:
            reader.partitions(target)
        if dry_run:
            with DeadLetterTopics(configuration) as originals:
                for letter in with_attempts(originals, waiting_letters(reader, topic, choose)):
                    _print_plan(letter, target, stays=is_quarantined(letter, max_attempts), as_json=as_json)
            return
        printed: list[str] = []

        def committed(so_far: Replayed) -> None:
            if as_json:
                printed.append(_progress(so_far))
                print(printed[-1], flush=True)

        outcome = replay(
            configuration,
            reader,
            topic,
            choose=choose,
            target=target,
            max_attempts=max_attempts,
            committed=committed,
            chunk_letters=chunk_letters,
        )
    if as_json:
        if outcome.quarantined and printed[-1:] != [_progress(outcome)]:
            print(_progress(outcome))
        return
    written = ", ".join(f"{number} to {name}" for name, number in sorted(outcome.by_target.items()))
    print(f"replayed {outcome.letters} dead letters" + (f": {written}" if written else ""))
    if outcome.unreplayable:
        print(
            f"penstock: {outcome.unreplayable} letters were not read from a topic and stay; name one with --to",
            file=sys.stderr,
        )
    if outcome.quarantined:
        print(
            f"penstock: {outcome.quarantined} letters were replayed {max_attempts} times before and stay; correct the"
            " cause, then choose them with --offset or --max-attempts 0",
            file=sys.stderr,
        )


def _progress(so_far: Replayed) -> str:
    return json.dumps({"replayed": so_far.letters, "quarantined": so_far.quarantined, "topics": so_far.by_target})


def _choice(
    reason: str | None, stage: str | None, pipeline: str | None, partition: int | None, offsets: str | None
) -> Callable[[DeadLetter], bool]:
    if stage is not None and stage not in _STAGES:
        raise usage_error(f"--stage {stage}: expected one of {', '.join(_STAGES)}")
    first, last = _offset_range(offsets)

    def choose(letter: DeadLetter) -> bool:
        return (
            (reason is None or reason in (letter.reason or ""))
            and stage in (None, letter.stage)
            and pipeline in (None, letter.pipeline)
            and partition in (None, letter.partition)
            and first <= letter.offset <= last
        )

    return choose


def _offset_range(text: str | None) -> tuple[int, int]:
    if text is None:
        return 0, 1 << 63
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise usage_error(f"--offset {text}: expected an offset, or a range such as 10-20")
    return int(first), int(last) if dash else int(first)


def _is_done(letter: DeadLetter, done: dict[int, Done]) -> bool:
    return letter.partition in done and letter.offset in done[letter.partition]


def _count(topic: str, kind: tuple[str, str, str], letters: int, waiting: int, attempt: int) -> dict[str, Any]:
    """`attempt` is the highest of those that wait."""
    pipeline, stage, reason = kind
    return {
        "topic": topic,
        "pipeline": pipeline,
        "stage": stage,
        "letters": letters,
        "waiting": waiting,
        "attempt": attempt,
        "reason": reason,
    }


def _print_letter(letter: DeadLetter, *, is_done: bool, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "topic": letter.topic,
                    "partition": letter.partition,
                    "offset": letter.offset,
                    "timestamp": letter.timestamp_ms,
                    "pipeline": letter.pipeline,
                    "stage": letter.stage,
                    "reason": letter.reason,
                    "source": {
                        "topic": letter.source_topic,
                        "partition": letter.source_partition,
                        "offset": letter.source_offset,
                    },
                    "attempt": letter.attempt,
                    "replayed": is_done,
                    **json_field("key", letter.key),
                    **json_field("value", letter.value),
                },
                ensure_ascii=False,
            )
        )
        return
    mark = " (replayed)" if is_done else ""
    print(f"partition {letter.partition} offset {letter.offset}{mark}: {letter.pipeline}, {letter.stage}")
    print(f"  from    {letter.source}")
    if letter.attempt:
        print(f"  attempt {letter.attempt}")
    print(f"  reason  {letter.reason}")
    print(f"  key     {_shown(letter.key)}")
    print(f"  value   {_shown(letter.value)}")


def _print_plan(letter: DeadLetter, target: str | None, *, stays: bool, as_json: bool) -> None:
    known = target or (letter.source_topic if letter.source_offset is not None else None)
    place = None if stays else known
    if as_json:
        plan = {
            "partition": letter.partition,
            "offset": letter.offset,
            "to": place,
            "attempt": letter.attempt,
            "reason": letter.reason,
        }
        print(json.dumps(plan, ensure_ascii=False))
        return
    where = f"to {place}" if place else "stays: it was not read from a topic; name one with --to"
    if stays:
        where = f"stays: it was replayed {letter.attempt} times; choose it with --offset or --max-attempts 0"
    print(f"partition {letter.partition} offset {letter.offset}: {where} ({letter.reason})")


def _shown(data: bytes | None) -> str:
    return "NULL" if data is None else data.decode("utf-8", "backslashreplace")


def _print_table(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    cells = [columns, *([str(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[number]) for line in cells) for number in range(len(columns))]
    for number, line in enumerate(cells):
        text = line if number else [name.upper() for name in line]
        print("  ".join(cell.ljust(width) for cell, width in zip(text, widths, strict=True)).rstrip())
