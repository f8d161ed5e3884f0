"""Counters, gauges and histograms, and the registry that holds those of one process or one test.

Plain objects of one thread: the event loop, or the thread that runs a pipeline. Hot code holds a metric directly and
adds to its attributes (`counter.value += n`), so that feeding costs an attribute and no call. There is no global
registry: a composition root makes one and passes it in. `exposition.py` writes them as text.

Names follow Kafka's JMX metrics as Prometheus exporters write them: `kafka_server_brokertopicmetrics_messagesin_total`.
A counter's name ends in `_total`, a unit stands before that (`_bytes_total`, `_seconds`).

Invariant: one name has one kind and one set of label names; two metrics never have the same name and labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

# Seconds: from a request answered in the same turn of the event loop to a long poll.
LATENCY_BOUNDS_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)

Labels = Mapping[str, str]
# What a gauge with many labels tells when it is asked: a value for each set of label values, and None for a unit of
# work without one. What it reads may change between any two items, so it reads from copies.
ReadAll = Callable[[], Iterable[tuple[Labels, float] | None]]


class Sample(NamedTuple):
    """One value as an exporter writes it."""

    name: str
    labels: Labels
    value: float


class Counter:
    """Only ever grows. Add to `value`."""

    __slots__ = ("labels", "value")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.value: float = 0

    def samples(self, name: str) -> Iterator[Sample]:
        yield Sample(name, self.labels, self.value)


class Gauge:
    """Goes up and down. Set `value`."""

    __slots__ = ("labels", "value")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.value: float = 0

    def samples(self, name: str) -> Iterator[Sample]:
        yield Sample(name, self.labels, self.value)


class GaugeReader:
    """A gauge that costs nothing until it is asked: `read` tells the values of all labels then."""

    __slots__ = ("labels", "read")

    def __init__(self, read: ReadAll) -> None:
        self.labels: Labels = {}
        self.read = read

    def samples(self, name: str) -> Iterator[Sample | None]:
        for item in self.read():
            yield None if item is None else Sample(name, *item)


class CounterReader(GaugeReader):
    """As a gauge that reads, for values that only ever grow."""

    __slots__ = ()


class Histogram:
    """Counts observations in fixed buckets. `counts` has one more entry than there are bounds, for what exceeds all."""

    __slots__ = ("bounds", "counts", "labels", "total")

    def __init__(self, labels: Labels, bounds: Sequence[float]) -> None:
        self.labels = labels
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)

    def samples(self, name: str) -> Iterator[Sample]:
        """As Prometheus has them: each bucket counts everything up to its bound."""
        below = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            yield Sample(f"{name}_bucket", {**self.labels, "le": bound}, below)
        yield Sample(f"{name}_sum", self.labels, self.total)
        yield Sample(f"{name}_count", self.labels, below)


Metric = Counter | Gauge | GaugeReader | CounterReader | Histogram
_M = TypeVar("_M", Counter, Gauge, GaugeReader, CounterReader, Histogram)


class Family(NamedTuple):
    """All metrics of one name; they differ in the values of their labels."""

    name: str
    help: str
    kind: type[Metric]
    metrics: dict[tuple[tuple[str, str], ...], Metric]


class Metrics:
    """The registry. Asking twice for the same name and labels gives the same metric."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        return self._metric(name, help_text, Counter, labels, lambda: Counter(labels))

    def gauge(self, name: str, help_text: str, **labels: str) -> Gauge:
        return self._metric(name, help_text, Gauge, labels, lambda: Gauge(labels))

    def gauge_reader(self, name: str, help_text: str, read: ReadAll) -> GaugeReader:
        return self._metric(name, help_text, GaugeReader, {}, lambda: GaugeReader(read))

    def counter_reader(self, name: str, help_text: str, read: ReadAll) -> CounterReader:
        return self._metric(name, help_text, CounterReader, {}, lambda: CounterReader(read))

    def histogram(
        self, name: str, help_text: str, bounds: Sequence[float] = LATENCY_BOUNDS_S, **labels: str
    ) -> Histogram:
        return self._metric(name, help_text, Histogram, labels, lambda: Histogram(labels, bounds))

    def remove(self, name: str, **labels: str) -> None:
        """What the labels named is gone, such as a deleted topic."""
        family = self._families.get(name)
        if family is not None:
            family.metrics.pop(_key(labels), None)

    def families(self) -> Sequence[Family]:
        return tuple(self._families.values())

    def samples(self) -> Iterator[Sample]:
        for family in self.families():
            for metric in tuple(family.metrics.values()):
                yield from (sample for sample in metric.samples(family.name) if sample is not None)

    def value(self, name: str, **labels: str) -> float:
        """One sample's value; 0 where there is none. For tests and status lines, not for hot paths."""
        return sum(sample.value for sample in self.samples() if sample.name == name and sample.labels == labels)

    def _metric(self, name: str, help_text: str, kind: type[_M], labels: Labels, make: Callable[[], _M]) -> _M:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = Family(name, help_text, kind, {})
        assert family.kind is kind, f"{name} is a {family.kind.__name__}"
        key = _key(labels)
        metric = family.metrics.get(key)
        if metric is None:
            names = {label for label, _ in key}
            assert all({label for label, _ in other} == names for other in family.metrics), f"{name} has other labels"
            metric = family.metrics[key] = make()
        assert isinstance(metric, kind)
        return metric


def _key(labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))
