"""The broker's metrics by name: one small object for each place that feeds them.

Objects here hold the counters that hot code adds to, so that the names stand together and no hot path looks one up.
Names follow Kafka's JMX metrics in Prometheus' spelling; times are in seconds, as Prometheus has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from penstock.core.metrics import Histogram, Labels, Metrics
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.router import Route

_REQUESTS = "kafka_network_requestmetrics_requests_total"
_ERRORS = "kafka_network_requestmetrics_errors_total"
_LATENCY = "kafka_network_requestmetrics_totaltime_seconds"


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
    """Requests by API: how many, how long from the read of the request to its answer, and which errors."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._latencies: dict[int, Histogram] = {}  # by API key
        metrics.counter_reader(
            _REQUESTS, "Requests answered.", lambda: ((each.labels, each.count) for each in self._latencies.values())
        )

    def answered(self, route: Route, seconds: float, count: int) -> None:
        """So many requests of one read are answered together; an acks=0 produce counts as answered."""
        latency = self._latencies.get(route.api_key)
        if latency is None:
            latency = self._latencies[route.api_key] = self._metrics.histogram(
                _LATENCY, "From the read of a request to its answer.", request=route.name
            )
        latency.observe(seconds, count)

    def failed(self, request: str, code: int) -> None:
        """An error code in an answer, for the whole request or one of its parts."""
        try:
            error = ErrorCode(code).name
        except ValueError:
            error = str(code)
        self._metrics.counter(_ERRORS, "Error codes in answers.", request=request, error=error).value += 1


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


def watch_logs(metrics: Metrics, read: Callable[[], Iterable[tuple[Labels, int, int]]]) -> None:
    """`read` tells the labels, start and end of every log when the gauges are asked."""
    metrics.gauge_reader(
        "kafka_log_log_logstartoffset", "The first offset.", lambda: ((labels, start) for labels, start, _ in read())
    )
    metrics.gauge_reader(
        "kafka_log_log_logendoffset", "The next offset.", lambda: ((labels, end) for labels, _, end in read())
    )
