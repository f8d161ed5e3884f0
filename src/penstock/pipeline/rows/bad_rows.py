"""Bad rows: rows that do not parse, break an expectation or fail in the transform, and how they are separated from good
ones.

Owns the columns that tag a row with why it is bad, and what `on_error` makes of bad rows:

- stop: a filter that raises. It does not commute with the author's own filters, so no bad row slips past it.
- drop: a filter, and a metric that counts what it drops.
- dead letters: a filter, and a second DataFrame of the same source with the bad rows.

It must never know which kind of source the rows come from, nor sinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from penstock.core.error_table import BAD_ROW, EXPRESSION_FAILED
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.dead_letters import DEAD_LETTER_TYPE
from penstock.pipeline.spark.internals import is_deterministic, referenced_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.rows.transform_guard import TransformGuard

OnBadRow = Literal["stop", "drop", "dead_letters"]

DROPPED_METRIC_PREFIX: Final = "penstock_dropped_"
# Columns beside those of the data.
ROW: Final = "__row"
REASON: Final = "__reason"
STAGE: Final = "__stage"
POSITION: Final = "__position"
LETTER_KEY: Final = "__key"
LETTER_VALUE: Final = "__value"
TAGS: Final = (REASON, STAGE, POSITION, LETTER_KEY, LETTER_VALUE)
_PARSE: Final = "__parse"
_EXPECT: Final = "__expect"
_EXCERPT_CHARACTERS: Final = 60
_COLUMNS_SHOWN_MAX: Final = 5


def with_reason(
    tagged: DataFrame,
    expectations: Mapping[str, str],
    parse_reason: Column | None,
    guard: TransformGuard | None = None,
    exempt: Column | None = None,
) -> DataFrame:
    """Adds why a row is bad, NULL for a good one, and the stage that found it so. A NULL condition is broken.

    Nothing is expected of rows that are `exempt`.
    """
    from pyspark.sql import functions as f

    nothing = f.lit(None).cast("string")
    found = tagged.withColumn(_PARSE, nothing if parse_reason is None else parse_reason)
    expectation = _broken(tagged, expectations)
    if expectation is not None:
        asked = f.col(_PARSE).isNull() if exempt is None else f.col(_PARSE).isNull() & ~exempt
        expectation = f.when(asked, expectation)
    if guard is None:
        reason = f.coalesce(_PARSE, nothing if expectation is None else expectation)
        stage = f.when(f.col(_PARSE).isNotNull(), f.lit("parse")).otherwise(f.lit("expect"))
        return found.withColumn(REASON, reason).withColumn(STAGE, stage)
    found = found.withColumn(_EXPECT, nothing if expectation is None else expectation)
    is_good_so_far = f.col(_PARSE).isNull() & f.col(_EXPECT).isNull()
    reason = f.coalesce(_PARSE, _EXPECT, f.when(is_good_so_far, guard.reason(found)))
    stage = f.when(f.col(_PARSE).isNotNull(), f.lit("parse")).when(f.col(_EXPECT).isNotNull(), f.lit("expect"))
    return found.withColumn(REASON, reason).withColumn(STAGE, stage.otherwise(f.lit("transform")))


def _broken(tagged: DataFrame, expectations: Mapping[str, str]) -> Column | None:
    """Which expectation a row breaks, and what its columns hold; NULL if it meets them."""
    from pyspark.sql import functions as f

    broken: Column | None = None
    for rule, condition in expectations.items():
        _require_certainty(tagged, rule, condition)
        unmet = ~f.coalesce(f.expr(condition), f.lit(False))
        reason = f.concat(f.lit(f"breaks expect '{rule}': {condition}"), _held(tagged, condition))
        broken = f.when(unmet, reason) if broken is None else broken.when(unmet, reason)
    return broken


def _held(tagged: DataFrame, condition: str) -> Column:
    """What a row has in the columns of a condition."""
    from pyspark.sql import functions as f

    names = referenced_columns(tagged, condition)[:_COLUMNS_SHOWN_MAX]
    said = []
    for number, name in enumerate(names):
        said += [f.lit(f"{', ' if number else ' ('}{name} = "), excerpt(f.col(quoted(name)).cast("string"))]
    return f.concat(*said, f.lit(")")) if said else f.lit("")


def excerpt(text: Column) -> Column:
    """A text as a message shows it: its beginning, in quotes, in one line; NULL for NULL."""
    from pyspark.sql import functions as f

    legible = f.regexp_replace(f.make_valid_utf8(text), r"\p{Cntrl}", "\ufffd")
    cut = f.when(f.length(legible) <= _EXCERPT_CHARACTERS, legible).otherwise(
        f.concat(f.left(legible, f.lit(_EXCERPT_CHARACTERS)), f.lit("..."))
    )
    return f.coalesce(f.concat(f.lit("'"), cut, f.lit("'")), f.lit("NULL"))


def _require_certainty(tagged: DataFrame, rule: str, condition: str) -> None:
    """Good rows and dead letters may be made by two readings, which have to agree on every row."""
    if not is_deterministic(tagged, condition):
        raise PipelineFailed(
            f"expect '{rule}': a condition must say the same of a row whenever it is asked; take out what is random",
            ExitCode.INVALID_SQL,
        )


def without_bad(tagged: DataFrame, name: str, on_bad_row: OnBadRow) -> DataFrame:
    from pyspark.sql import functions as f

    is_good = f.col(REASON).isNull()
    if on_bad_row == "drop":
        return tagged.observe(DROPPED_METRIC_PREFIX + name, f.count_if(~is_good).alias("rows")).where(is_good)
    # The marker of an error, as `core.errors.marker` writes it.
    position = [f.col(f"{POSITION}.{name}").alias(name) for name in ("topic", "partition", "offset")]
    fields = f.struct(f.col(REASON).alias("message"), f.col(STAGE).alias("stage"), *position)
    condition = f.when(f.col(STAGE) == "transform", f.lit(f"[{EXPRESSION_FAILED}] ")).otherwise(f.lit(f"[{BAD_ROW}] "))
    complaint = f.raise_error(f.concat(condition, f.to_json(fields))).cast("boolean")
    # spark_partition_id makes the condition one that Spark does not combine with those of the author.
    return tagged.where((f.spark_partition_id() >= 0) & f.when(is_good, True).otherwise(complaint))


def dead_letter() -> Column:
    """The row as a dead letter; NULL for a good row."""
    from pyspark.sql import functions as f

    letter = f.struct(
        f.col(LETTER_KEY).alias("key"),
        f.col(LETTER_VALUE).alias("value"),
        f.col(REASON).alias("reason"),
        f.col(STAGE).alias("stage"),
        f.col(f"{POSITION}.topic").alias("topic"),
        f.col(f"{POSITION}.partition").alias("partition"),
        f.col(f"{POSITION}.offset").alias("offset"),
    )
    return f.when(f.col(REASON).isNotNull(), letter.cast(DEAD_LETTER_TYPE))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
