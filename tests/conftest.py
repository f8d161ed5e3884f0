"""What every test directory shares: the broker under test, and the rule for optional parts.

A test whose server or tool is not installed is skipped with a line that says what to install. With
PENSTOCK_REQUIRE_ALL=1, as in CI, that same skip is a failure.
"""

from __future__ import annotations

import os
import shutil
import signal
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest
from hypothesis import HealthCheck, settings

from penstock.testing.apache_kafka import ApacheKafka
from penstock.testing.etcd import Etcd, EtcdMissingError
from penstock.testing.java import JavaMissingError
from tests.spark_session import _shared_session_is_active, crash_directory, spark

__all__ = ["_shared_session_is_active", "crash_directory", "spark"]  # fixtures; once, or there would be two sessions


# Hypothesis judges by the clock, and a busy machine is slow. What else it checks holds everywhere.
settings.register_profile("penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("penstock")


class RunningBroker(Protocol):
    """What tests use of a broker, whoever's it is."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def data_dir(self) -> Path: ...

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


# Tests whose names begin so share an expensive server: a Spark session with its databases, or a broker with the matrix
# of results. Several Spark sessions rather than one, and all of them before the other tests, so that no process is left
# with Spark's tests at the end. The first that fits decides, and they start in this order.
_SHARED_SERVERS = (
    "tests/pipeline/test_run",
    "tests/pipeline/test_topic_",
    "tests/pipeline/",
    "tests/conformance/",
    "tests/clients/",
    "tests/kafka_tools/",
    "tests/integration/security/",
)
# They share nothing, and each takes as long as a file of tests: pages of the documentation, tasks of a new user.
_INDEPENDENT = (
    "tests/new_user/test_pages.py",
    "tests/new_user/test_tasks_alone.py",
)


@dataclass(frozen=True, slots=True)
class Slice:
    """A deterministic part of the selected tests: the `number`th of `count` equal parts, in the order of checksums.

    New tests come between all others in that order, so the others stay in their slices, but for a few at the borders.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Slice:
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
            raise ValueError(f"--slice {text}: expected K/N with 0 <= K < N, for example 0/2")
        return cls(int(number), int(count))

    def of(self, names: Iterable[str]) -> set[str]:
        ordered = sorted(names, key=lambda name: (zlib.crc32(name.encode()), name))
        first, end = (len(ordered) * number // self.count for number in (self.number, self.number + 1))
        return set(ordered[first:end])


BrokerStarter = Callable[[Mapping[str, str]], AbstractContextManager[RunningBroker]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        choices=["penstock", "penstock-cluster", "apache-kafka"],
        default=os.environ.get("PENSTOCK_TEST_BROKER", "penstock"),
        help="which broker the client matrix runs against (default: $PENSTOCK_TEST_BROKER, else penstock)",
    )
    parser.addoption(
        "--slice",
        metavar="K/N",
        type=Slice.parse,
        help="run the Kth of N parts of the selected tests (0 <= K < N); CI rotates K, so that N runs cover everything",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "feature(template, **variants): names the row of the client matrix that a test is"
    )
    # A shell ignores ctrl-C for what it starts in the background, and so would every process that a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "cell(client, feature): one cell of the client matrix; set while collecting")


@pytest.hookimpl(trylast=True)  # behind -m, -k and the shuffle: a slice is a part of what they selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted: Slice | None = config.getoption("--slice")
    if wanted is not None:
        selected = wanted.of(item.nodeid for item in items)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in selected])
        items[:] = [item for item in items if item.nodeid in selected]
    sizes = Counter(_scope(item.nodeid) for item in items)

    def rank(item: pytest.Item) -> tuple[int, int]:
        scope = _scope(item.nodeid)
        first = _SHARED_SERVERS.index(scope) if scope in _SHARED_SERVERS else len(_SHARED_SERVERS)
        return first, -sizes[scope]

    items.sort(key=rank)


def _scope(nodeid: str) -> str:
    """What stays in one process."""
    if nodeid.startswith(_INDEPENDENT):
        return nodeid
    file = nodeid.split("::", maxsplit=1)[0]
    return next((shared for shared in _SHARED_SERVERS if file.startswith(shared)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`, what shares an expensive server stays in one process; elsewhere a file does."""
    from xdist.scheduler import LoadScopeScheduling

    class ByServer(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    config.option.loadscopereorder = False  # the order of the collected tests is the order of the scopes
    return ByServer(config, log)


def optional_part_missing(message: str) -> NoReturn:
    """Skips the running test, or fails it where every optional part is required."""
    if os.environ.get("PENSTOCK_REQUIRE_ALL") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def require_program(name: str, *, install: str) -> str:
    """The path of a program that the running test wants; `install` is the command that brings it."""
    path = shutil.which(name)
    if path is None:
        optional_part_missing(f"{name} is not installed: {install}")
    return path


@pytest.fixture(scope="session")
def etcd() -> Iterator[Etcd]:
    """One etcd for all tests of a process, each with a prefix of its own. None of them may stop it."""
    try:
        server = Etcd()
    except EtcdMissingError as missing:
        optional_part_missing(str(missing))
    with server:
        yield server


@pytest.fixture(scope="session")
def broker_name(pytestconfig: pytest.Config) -> str:
    return str(pytestconfig.getoption("--broker"))


@pytest.fixture(scope="session")
def start_broker(broker_name: str) -> BrokerStarter:
    """Starts one more broker of the kind under test, with these settings, for a test that wants it for itself."""
    return {"apache-kafka": _apache_kafka, "penstock-cluster": _penstock_cluster, "penstock": _penstock}[broker_name]


@pytest.fixture(scope="session")
def broker_under_test(start_broker: BrokerStarter) -> Iterator[RunningBroker]:
    """One broker for the whole run: tests tell their topics apart by name.

    Without the delay, a new group has its first assignment at once instead of after three seconds.
    """
    with start_broker({"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


@contextmanager
def _apache_kafka(config: Mapping[str, str]) -> Iterator[RunningBroker]:
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(ApacheKafka(config=config))
        except JavaMissingError as missing:
            optional_part_missing(str(missing))
        yield kafka


@contextmanager
def _penstock(config: Mapping[str, str]) -> Iterator[RunningBroker]:
    from penstock.testing import Broker

    with Broker(config=dict(config)) as broker:
        yield broker


@contextmanager
def _penstock_cluster(config: Mapping[str, str]) -> Iterator[RunningBroker]:
    from penstock.testing.etcd import EtcdMissingError
    from tests.cluster.as_one_broker import ClusterAsBroker

    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(ClusterAsBroker(config))
        except EtcdMissingError as missing:
            optional_part_missing(str(missing))
        yield cluster
