"""What Spark says of failed queries, as one line and an exit code. The texts are cut from real ones."""

from __future__ import annotations

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import judge

WRAPPED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: "


def python(name: str, message: str) -> str:
    trace = 'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n    process()\n'
    return f"{WRAPPED}{trace}{name}: {message}\n\n\tat org.apache.spark.api.python.Runner.run(Runner.scala:1)"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (
            python(
                "penstock.pipeline.topics.errors.DataLossError",
                "topic 'orders' partition 0 is gone. To go on with the records that are there, set the option"
                " failOnDataLoss to false",
            ),
            ExitCode.SOURCE_LOST,
            "topic 'orders' partition 0 is gone; to begin anew with what is there now, name another directory with"
            " --checkpoint",
        ),
        (
            python("penstock.pipeline.topics.errors.UnknownTopicError", "topic 'orders' does not exist"),
            ExitCode.NOT_FOUND,
            "topic 'orders' does not exist",
        ),
        (
            python("penstock.protocol.error_codes.BrokerError", "no entry (SASL_AUTHENTICATION_FAILED)"),
            ExitCode.ACCESS_DENIED,
            "no entry (SASL_AUTHENTICATION_FAILED)",
        ),
        (
            python("penstock.pipeline.topics.sink_errors.Fenced", "[PENSTOCK_SINK_FENCED] another run has taken over"),
            ExitCode.FENCED,
            "another run has taken over",
        ),
        (
            python("penstock.pipeline.sinks.errors.TableRefused", "column 'a' is missing"),
            ExitCode.SINK_REFUSED,
            "sink: column 'a' is missing",
        ),
        (
            WRAPPED + "java.io.IOException: No space left on device",
            ExitCode.DISK_FULL,
            "no space is left on the disk of the checkpoint, the state or a local sink; make room and run it again: it "
            "goes on from its last commit",
        ),
        (
            WRAPPED
            + '[CAST_INVALID_INPUT] The value \'x\' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018',
            ExitCode.PIPELINE_FAILED,
            'The value \'x\' of the type "STRING" cannot be cast to "INT"',
        ),
        (
            WRAPPED + "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.",
            ExitCode.FENCED,
            "another run of this pipeline uses the same checkpoint; this one stops",
        ),
        (
            WRAPPED + '[USER_RAISED_EXCEPTION] [PENSTOCK_BAD_ROW] {"__position":{"topic":"orders","partition":3,'
            '"offset":17},"reason":"the value is null","stage":"parse"} SQLSTATE: P0001',
            ExitCode.PIPELINE_FAILED,
            "orders partition 3 offset 17: the value is null; nothing of its micro-batch was written: repair the "
            "source, or set on_error to drop or {dead_letters: TOPIC}",
        ),
    ],
)
def test_what_will_not_pass_ends_the_pipeline(text: str, code: ExitCode, line: str) -> None:
    judgement = judge(text)
    assert (judgement.exit_code, judgement.line, judgement.may_pass) == (code, line, False)


@pytest.mark.parametrize(
    "text",
    [
        python("penstock.core.errors.BrokerUnreachable", "offsets: no broker answered in time (connection refused)"),
        python(
            "penstock.pipeline.topics.sink_errors.BatchNotBegun", "a producer id: no broker answered in time (gone)"
        ),
        python("penstock.pipeline.sinks.errors.DatabaseUnavailable", "the database does not answer"),
    ],
)
def test_what_is_down_is_waited_for(text: str) -> None:
    judgement = judge(text)
    assert judgement.may_pass
    assert judgement.until_it_does


def test_what_nobody_foresaw_is_tried_again_a_few_times_and_told_in_one_line() -> None:
    judgement = judge(python("ValueError", "of the author's own function"))
    assert judgement.may_pass
    assert not judgement.until_it_does
    assert judgement.line == "ValueError: of the author's own function"
    assert "\n" not in judge("").line
