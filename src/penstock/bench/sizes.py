"""The sizes and time limits of all measurements: full, and small for `--quick`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

GB: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    small_record_bytes: int = 100
    large_record_bytes: int = 1024
    small_record_count: int = 4_000_000
    large_record_count: int = 1_000_000
    short_turn_share: float = 0.5
    """Of these counts, in a measurement that makes several short rounds in place of one."""
    warm_up_share: float = 0.25
    """The warm-up load of every new broker, as a share of the measured load; discarded. A JVM compiles meanwhile."""

    one_at_a_time_count: int = 5_000
    one_at_a_time_warm_up_count: int = 3_000

    memory_bytes: int = 5 * GB
    settle_s: float = 2.0
    """The pause after a start or a load before the broker is measured."""

    partition_count: int = 2_000
    idle_s: float = 10.0

    log_bytes: tuple[int, ...] = field(default=(GB // 10, GB, 10 * GB))
    """Ascending: the log is filled to the first size, read, then filled to the next."""
    random_read_count: int = 2_000
    random_read_warm_up_count: int = 1_000

    transaction_counts: dict[int, int] = field(default_factory=lambda: {1: 1_000, 100: 1_000, 10_000: 200})
    """The number of transactions, by the number of records per transaction."""

    group_member_count: int = 50
    group_partition_count: int = 500
    group_session_timeout_ms: int = 2_000
    group_heartbeat_interval_ms: int = 50
    group_pause_s: float = 1.2
    """Apache Kafka waits at least a second between two assignments of a KIP-848 group."""
    group_warm_up_count: int = 2
    group_repeat_count: int = 5

    compaction_bytes: int = 5 * GB
    restart_log_bytes: int = 10 * GB
    offset_commit_count: int = 1_000_000
    quota_bytes_per_second: int = 2_000_000
    quota_warm_up_s: float = 15.0
    quota_s: float = 10.0
    """How long a client that is over its quota is measured."""
    metrics_turns: int = 40
    metrics_turn_requests: int = 40_000

    replication_records_per_second: int = 10_000
    replication_paced_s: float = 20.0
    replication_paced_warm_up_s: float = 10.0
    replication_session_timeout_ms: int = 9_000

    connect_row_count: int = 2_000_000
    connect_table_row_count: int = 400_000
    connect_idle_count: int = 30

    spark_small_row_count: int = 4_000_000
    spark_large_row_count: int = 1_000_000
    spark_partition_count: int = 4
    spark_one_row_count: int = 100
    spark_one_row_warm_up_count: int = 50
    spark_rows_per_second: int = 10_000
    spark_steady_s: float = 20.0
    spark_steady_warm_up_s: float = 10.0
    spark_growth_partitions: tuple[int, ...] = (1, 10, 100, 500)
    spark_growth_rows: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)

    time_limit_s: float = 600.0
    """The time limit of every single step of a measurement."""

    def record_count(self, record_bytes: int) -> int:
        return self.small_record_count if record_bytes == self.small_record_bytes else self.large_record_count

    def spark_row_count(self, row_bytes: int) -> int:
        return self.spark_small_row_count if row_bytes == self.small_record_bytes else self.spark_large_row_count


FULL: Final = Sizes()
QUICK: Final = Sizes(
    replication_paced_s=4.0,
    replication_paced_warm_up_s=2.0,
    replication_session_timeout_ms=6_000,
    small_record_count=400_000,
    large_record_count=100_000,
    one_at_a_time_count=1_000,
    one_at_a_time_warm_up_count=500,
    memory_bytes=GB // 5,
    settle_s=1.0,
    partition_count=200,
    idle_s=3.0,
    log_bytes=(GB // 100, GB // 10, GB // 2),
    random_read_count=500,
    random_read_warm_up_count=200,
    transaction_counts={1: 100, 100: 100, 10_000: 20},
    group_member_count=10,
    group_partition_count=100,
    group_session_timeout_ms=1_000,
    group_warm_up_count=1,
    group_repeat_count=1,
    compaction_bytes=GB // 5,
    restart_log_bytes=GB // 2,
    offset_commit_count=50_000,
    quota_warm_up_s=11.0,
    quota_s=5.0,
    metrics_turns=6,
    metrics_turn_requests=8_000,
    connect_row_count=50_000,
    connect_table_row_count=20_000,
    connect_idle_count=4,
    spark_small_row_count=400_000,
    spark_large_row_count=100_000,
    spark_one_row_count=20,
    spark_one_row_warm_up_count=10,
    spark_steady_s=5.0,
    spark_steady_warm_up_s=5.0,
    spark_growth_partitions=(1, 10),
    spark_growth_rows=(1_000, 10_000),
    time_limit_s=120.0,
)
