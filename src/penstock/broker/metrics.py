"""The broker's metrics by name: one small object for each place that feeds them.

Objects here hold the counters that hot code adds to, so that the names stand together and no hot path looks one up.
Names follow Kafka's JMX metrics in Prometheus' spelling; times are in seconds, as Prometheus has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from penstock.core.metrics import Histogram, Labels, Metrics
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.router import Route

_PREFIX: Final = "kafka_network_requestmetrics_"


class ListenerMetrics:
    """Connections of one listener, and their bytes."""

    __slots__ = ("accepted", "authenticated", "bytes_in", "bytes_out", "closed", "failed_authentication", "open")

    def __init__(self, metrics: Metrics, listener: str) -> None:
        prefix = "kafka_server_socketservermetrics_"
        self.open = metrics.gauge(prefix + "connectioncount", "Open connections.", listener=listener)
        self.accepted = metrics.counter(prefix + "connectioncreation_total", "Connections accepted.", listener=listener)
        self.closed = metrics.counter(prefix + "connectionclose_total", "Connections closed.", listener=listener)
        self.authenticated = metrics.counter(
            prefix + "successful_authentication_total", "Clients that proved who they are.", listener=listener
        )
        self.failed_authentication = metrics.counter(
            prefix + "failed_authentication_total", "Clients that failed to prove who they are.", listener=listener
        )
        self.bytes_in = metrics.counter(prefix + "incomingbyte_total", "Bytes received.", listener=listener)
        self.bytes_out = metrics.counter(prefix + "outgoingbyte_total", "Bytes sent.", listener=listener)


class RequestMetrics:
    """Requests by API: how many, how large, how long from the read of the request to its answer, and which errors."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._latencies: dict[int, Histogram] = {}  # by API key
        self._errors: defaultdict[tuple[str, int], int] = defaultdict(int)  # by request and code
        self._throttles: defaultdict[int, int] = defaultdict(int)
        self._throttle_ms: defaultdict[int, int] = defaultdict(int)
        self.request_bytes: list[int] | None = None
        """By API key, as `response_bytes`; None unless sizes are asked for, so that they cost nothing."""
        self.response_bytes: list[int] | None = None
        metrics.counter_reader(
            _PREFIX + "requests_total",
            "Requests answered.",
            lambda: [(each.labels, each.count) for each in self._latencies.values()],
        )
        metrics.counter_reader(_PREFIX + "errors_total", "Error codes in answers.", self._read_errors)
        metrics.counter_reader(
            "penstock_throttled_requests_total", "Requests above a quota.", lambda: _by_name(self._throttles)
        )
        metrics.counter_reader(
            "penstock_throttle_seconds_total",
            "Time for which connections were muted because of a quota.",
            lambda: [(labels, value / 1000) for labels, value in _by_name(self._throttle_ms)],
        )

    def count_sizes(self) -> None:
        """For connections that are accepted from now on."""
        from penstock.broker.router import BY_API_KEY

        # Lists: for every request one of them is added to, which takes half the time of a dictionary.
        received, sent = [0] * (max(BY_API_KEY) + 1), [0] * (max(BY_API_KEY) + 1)
        self.request_bytes, self.response_bytes = received, sent
        self._metrics.counter_reader(
            _PREFIX + "requestbytes_total", "Bytes of requests.", lambda: _by_name(_counted(received))
        )
        self._metrics.counter_reader(
            _PREFIX + "responsebytes_total", "Bytes of responses.", lambda: _by_name(_counted(sent))
        )

    def answered(self, route: Route, seconds: float, count: int) -> None:
        """So many requests of one read are answered together; an acks=0 produce counts as answered."""
        latency = self._latencies.get(route.api_key)
        if latency is None:
            latency = self._latencies[route.api_key] = self._metrics.histogram(
                _PREFIX + "totaltime_seconds", "From the read of a request to its answer.", request=route.name
            )
        latency.observe(seconds, count)

    def throttled(self, route: Route, throttle_ms: int) -> None:
        """The client exceeded a quota, and is not read from for so long."""
        self._throttles[route.api_key] += 1
        self._throttle_ms[route.api_key] += throttle_ms

    def failed(self, request: str, code: int) -> None:
        """An error code in an answer, for the whole request or one of its parts."""
        self._errors[request, code] += 1

    def _read_errors(self) -> Iterator[tuple[Labels, int]]:
        for (request, code), count in tuple(self._errors.items()):
            try:
                error = ErrorCode(code).name
            except ValueError:
                error = str(code)
            yield {"request": request, "error": error}, count


def _counted(values: list[int]) -> dict[int, int]:
    return {api_key: value for api_key, value in enumerate(values) if value}


def _by_name(by_api_key: Mapping[int, int]) -> list[tuple[Labels, int]]:
    from penstock.broker.router import BY_API_KEY

    return [({"request": BY_API_KEY[api_key].name}, value) for api_key, value in by_api_key.items()]


class TopicMetrics:
    """Records of one topic, in and out. All of its partitions add to one object."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in")

    def __init__(self, metrics: Metrics, topic: str) -> None:
        prefix = "kafka_server_brokertopicmetrics_"
        self.messages_in = metrics.counter(prefix + "messagesin_total", "Records appended.", topic=topic)
        self.bytes_in = metrics.counter(prefix + "bytesin_total", "Bytes of batches appended.", topic=topic)
        self.bytes_out = metrics.counter(prefix + "bytesout_total", "Bytes of batches fetched.", topic=topic)

    @staticmethod
    def remove(metrics: Metrics, topic: str) -> None:
        """The topic was deleted."""
        for name in ("messagesin_total", "bytesin_total", "bytesout_total"):
            metrics.remove("kafka_server_brokertopicmetrics_" + name, topic=topic)


class GroupMetrics:
    """What the group coordinator did. Numbers of groups and members are counted when they are asked for."""

    __slots__ = ("load_time", "offset_commits", "rebalances")

    def __init__(self, metrics: Metrics) -> None:
        prefix = "kafka_server_groupcoordinatormetrics_"
        self.rebalances = metrics.counter(
            prefix + "groupcompletedrebalance_total", "Generations of classic groups and epochs of consumer groups."
        )
        self.offset_commits = metrics.counter(prefix + "offsetcommit_total", "Offsets committed.")
        self.load_time = load_time(metrics, "groupcoordinatormetrics")


def load_time(metrics: Metrics, coordinator: str) -> Histogram:
    return metrics.histogram(
        f"kafka_server_{coordinator}_partitionloadtime_seconds", "Loading one partition of a coordinator's topic."
    )


def flush_time(metrics: Metrics) -> Histogram:
    return metrics.histogram(
        "kafka_log_logflushstats_logflushtime_seconds", "One round of fsync, for all logs that asked for it."
    )


class CleanerMetrics:
    """What compactions did. Uncleanable partitions are counted when they are asked for."""

    __slots__ = ("bytes_read", "bytes_written", "failed", "seconds", "since_last_run", "succeeded")

    def __init__(self, metrics: Metrics, since_last_run_ms: Callable[[], int]) -> None:
        prefix = "penstock_cleaner_"
        runs = (prefix + "runs_total", "Compactions of a log.")
        self.succeeded = metrics.counter(*runs, result="success")
        self.failed = metrics.counter(*runs, result="failure")
        self.bytes_read = metrics.counter(prefix + "read_bytes_total", "Bytes of the segments before.")
        self.bytes_written = metrics.counter(prefix + "written_bytes_total", "Bytes of the compacted segments.")
        self.seconds = metrics.counter(prefix + "seconds_total", "Time from the start of compactions to their end.")
        self.since_last_run = metrics.gauge_reader(
            "kafka_log_logcleanermanager_time_since_last_run_ms",
            "Milliseconds since the last look for logs to compact.",
            lambda: [({}, since_last_run_ms())],
        )
