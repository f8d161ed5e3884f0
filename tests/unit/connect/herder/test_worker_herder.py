"""A standalone worker with a runner that only pretends: what REST asks of it, and what runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.connect.herder.herder import ConnectorStatus, ConnectRestError, Herder
from penstock.connect.herder.ownership import SoleOwnership
from penstock.connect.herder.standalone import standalone_herder
from penstock.connect.herder.worker_herder import WorkerHerder, WorkerSettings
from penstock.connect.runtime.runner import Report, State
from penstock.connect.storage.table import MemoryTable
from penstock.core.errors import BrokerUnreachable
from penstock.core.ids import TopicPartition
from tests.unit.connect.herder.fakes import FakePlugins, FakeRunner, eventually

SINK = {"connector.class": "Sink", "topics": "lines", "tasks.max": "2"}
SOURCE = {"connector.class": "Source", "tasks.max": "1"}
WORKER = WorkerSettings("localhost:8083", "4.3.1", "abc", "cluster-id")


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def herder(runner: FakeRunner) -> Iterator[WorkerHerder]:
    herder = standalone_herder(WORKER, runner, FakePlugins())
    assert herder.health()[0] == 503
    herder.start()
    yield herder
    herder.stop()
    assert runner.running == set()


def refused(status: int, call: Callable[[], Any]) -> str:
    with pytest.raises(ConnectRestError) as refusal:
        call()
    assert refusal.value.status == status
    return str(refusal.value)


def await_state(herder: Herder, name: str, state: str, task_states: list[str]) -> ConnectorStatus:
    def status() -> ConnectorStatus | None:
        try:
            found = herder.status(name)
        except ConnectRestError:
            return None
        is_so = found.state == state and [task.state for task in found.tasks] == task_states
        return found if is_so else None

    found: ConnectorStatus = eventually(status)
    return found


def test_it_is_a_herder(herder: WorkerHerder) -> None:
    checked: Herder = herder
    assert checked.health() == (200, "healthy", "Worker has completed startup and is ready to handle requests.")
    assert checked.server_info() == {"version": "4.3.1", "commit": "abc", "kafka_cluster_id": "cluster-id"}
    assert [plugin.class_name for plugin in checked.plugins(connectors_only=True)] == ["Source", "Sink"]
    assert checked.plugin_config("Sink") == [{"name": "tasks.max"}]
    assert checked.validate("Sink", SINK)["error_count"] == 0


def test_a_connector_is_created_runs_and_is_deleted(herder: WorkerHerder, runner: FakeRunner) -> None:
    created = herder.create("snk", SINK)
    assert created.config == {**SINK, "name": "snk"}
    assert (created.tasks, created.type) == ((), "sink")
    status = await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])
    assert (status.worker_id, status.version, status.type) == ("localhost:8083", "1", "sink")
    assert herder.connectors() == ["snk"]
    assert herder.connector("snk").tasks == [("snk", 0), ("snk", 1)]
    assert herder.task_configs("snk") == ({**SINK, "name": "snk"},) * 2
    assert eventually(lambda: herder.topics("snk")) == ["lines"]

    herder.delete("snk")
    assert herder.connectors() == []
    eventually(lambda: not runner.running)
    eventually(lambda: not herder.topics("snk"))
    eventually(lambda: not herder._view.names_with_status())
    assert refused(404, lambda: herder.status("snk")) == "No status found for connector snk"


def test_messages_for_connectors_that_do_not_exist(herder: WorkerHerder) -> None:
    not_found = "Connector nope not found"
    assert refused(404, lambda: herder.connector("nope")) == not_found
    assert refused(404, lambda: herder.task_configs("nope")) == not_found
    assert refused(404, lambda: herder.offsets("nope")) == not_found
    assert refused(404, lambda: herder.delete("nope")) == not_found
    assert refused(404, lambda: herder.patch_config("nope", {})) == not_found
    assert refused(404, lambda: herder.reset_offsets("nope")) == not_found
    assert refused(404, lambda: herder.set_target_state("nope", "PAUSED")) == "Unknown connector nope"
    restart = refused(404, lambda: herder.restart_connector("nope", include_tasks=True, only_failed=False))
    assert restart == "Unknown connector: nope"
    assert refused(404, lambda: herder.restart_task("nope", 0)) == "Unknown connector: nope"
    assert herder.topics("nope") == []
    herder.reset_topics("nope")


def test_a_second_connector_of_a_name_is_a_conflict(herder: WorkerHerder) -> None:
    herder.create("snk", SINK)
    assert refused(409, lambda: herder.create("snk", SOURCE)) == "Connector snk already exists"
    assert herder.connector("snk").type == "sink"


def test_an_invalid_config_is_refused_with_its_errors(herder: WorkerHerder) -> None:
    invalid = {**SINK, "invalid": "this is wrong"}
    expected = (
        "Connector configuration is invalid and contains the following 1 error(s):\nthis is wrong\nYou can also find "
        "the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
    )
    assert refused(400, lambda: herder.create("snk", invalid)) == expected
    assert refused(400, lambda: herder.put_config("snk", invalid)) == expected
    assert herder.connectors() == []


def test_a_changed_config_restarts_it_with_other_tasks(herder: WorkerHerder, runner: FakeRunner) -> None:
    is_new, _ = herder.put_config("snk", SINK)
    assert is_new
    await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])
    is_new, _info = herder.put_config("snk", {**SINK, "tasks.max": "1"})
    assert not is_new
    await_state(herder, "snk", "RUNNING", ["RUNNING"])
    patched = herder.patch_config("snk", {"tasks.max": "3", "topics": None, "more": "x"})
    assert patched.config == {"connector.class": "Sink", "tasks.max": "3", "name": "snk", "more": "x"}
    await_state(herder, "snk", "RUNNING", ["RUNNING"] * 3)
    assert len(runner.starts) == 3
    herder.put_config("snk", patched.config)
    assert len(runner.starts) == 3


def test_paused_stopped_and_resumed(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", SINK)
    await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])
    herder.set_target_state("snk", "PAUSED")
    await_state(herder, "snk", "PAUSED", ["PAUSED", "PAUSED"])
    assert runner.running == set()
    herder.set_target_state("snk", "STARTED")
    await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])
    herder.set_target_state("snk", "STOPPED")
    await_state(herder, "snk", "STOPPED", [])
    assert runner.running == set()
    assert herder.connector("snk").tasks == []
    herder.set_target_state("snk", "STARTED")
    await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])


def test_a_connector_may_begin_stopped(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", SINK, "STOPPED")
    await_state(herder, "snk", "STOPPED", [])
    assert runner.starts == []


@pytest.mark.parametrize("failing", ["connector", "bug"])
def test_a_failed_connector_stays_failed_until_it_is_restarted(
    herder: WorkerHerder, runner: FakeRunner, failing: str
) -> None:
    herder.create("snk", {**SINK, "fail": failing})
    status = await_state(herder, "snk", "FAILED", ["UNASSIGNED", "UNASSIGNED"])
    assert ("it is broken" if failing == "connector" else "a bug of the runner") in str(status.trace)
    assert runner.starts == ["snk"]
    herder.restart_connector("snk", include_tasks=False, only_failed=True)
    eventually(lambda: len(runner.starts) == 2)
    await_state(herder, "snk", "FAILED", ["UNASSIGNED", "UNASSIGNED"])
    runner.repaired.set()
    herder.restart_connector("snk", include_tasks=False, only_failed=False)
    await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])


def test_a_failed_task_restarts_only_with_tasks(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", {**SINK, "fail": "task"})
    status = await_state(herder, "snk", "RUNNING", ["FAILED", "RUNNING"])
    assert status.tasks[0].trace == "its task is broken"
    runner.repaired.set()
    plan = herder.restart_connector("snk", include_tasks=False, only_failed=True)
    assert [plan.state, *(task.state for task in plan.tasks)] == ["RUNNING", "FAILED", "RUNNING"]
    plan = herder.restart_connector("snk", include_tasks=True, only_failed=True)
    assert [plan.state, *(task.state for task in plan.tasks)] == ["RUNNING", "RESTARTING", "RUNNING"]
    await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])
    assert len(runner.starts) == 2


def test_a_restart_of_all_or_of_one_task(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", SINK)
    await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])
    herder.restart_connector("snk", include_tasks=True, only_failed=True)
    plan = herder.restart_connector("snk", include_tasks=True, only_failed=False)
    assert [plan.state, *(task.state for task in plan.tasks)] == ["RESTARTING"] * 3
    eventually(lambda: len(runner.starts) == 2)
    await_state(herder, "snk", "RUNNING", ["RUNNING", "RUNNING"])
    herder.restart_task("snk", 1)
    eventually(lambda: len(runner.starts) == 3)
    assert refused(404, lambda: herder.restart_task("snk", 7)) == "Unknown task: snk-7"


def test_what_may_pass_is_shown_with_its_attempt(herder: WorkerHerder) -> None:
    herder.create("snk", {**SINK, "retry": "yes"})
    status = await_state(herder, "snk", "RESTARTING", ["RESTARTING", "RESTARTING"])
    assert status.details == {"attempt": 1, "cause": "away", "next_attempt_ms": 1}
    assert status.trace == "away"


def test_a_broker_that_is_away_at_the_start_is_waited_for(herder: WorkerHerder, runner: FakeRunner) -> None:
    runner.unfenceable = BrokerUnreachable("no broker answered in time")
    herder.create("src", SOURCE)
    status = await_state(herder, "src", "RESTARTING", ["RESTARTING"])
    assert status.details["attempt"] == 1
    assert status.details["cause"] == "no broker answered in time"
    assert status.details["condition"] == "PENSTOCK_BROKER_UNREACHABLE"
    herder.set_target_state("src", "PAUSED")
    await_state(herder, "src", "PAUSED", ["PAUSED"])
    runner.unfenceable = None
    herder.set_target_state("src", "STARTED")
    await_state(herder, "src", "RUNNING", ["RUNNING"])


def test_a_source_is_fenced_before_it_starts(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("src", {**SOURCE, "tasks.max": "3"})
    await_state(herder, "src", "RUNNING", ["RUNNING"] * 3)
    herder.put_config("src", SOURCE)
    await_state(herder, "src", "RUNNING", ["RUNNING"])
    assert runner.fenced == [("src", 3), ("src", 3)], "the tasks of the earlier life too"
    herder.put_config("src", {**SOURCE, "more": "x"})
    eventually(lambda: len(runner.starts) == 3)
    assert runner.fenced[-1] == ("src", 1)
    herder.create("snk", SINK)
    await_state(herder, "snk", "RUNNING", ["RUNNING"] * 2)
    assert {name for name, _count in runner.fenced} == {"src"}


def test_secrets_reach_the_runner_and_nothing_else(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", {**SINK, "password": "${x}"})
    await_state(herder, "snk", "RUNNING", ["RUNNING"] * 2)
    assert runner.executions["snk"].config["password"] == "resolved-x"
    assert herder.connector("snk").config["password"] == "${x}"
    assert herder.task_configs("snk")[0]["password"] == "${x}"


def test_topics_are_forgotten_and_found_again(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", SINK)
    eventually(lambda: herder.topics("snk") == ["lines"])
    herder.reset_topics("snk")
    assert herder.topics("snk") == []
    runner.executions["snk"].topics_used(["lines", "more"])
    eventually(lambda: herder.topics("snk") == ["lines", "more"])


def test_topics_are_not_tracked_if_the_worker_says_so(runner: FakeRunner) -> None:
    silent = WorkerSettings("localhost:8083", "4.3.1", tracks_topics=False)
    herder = standalone_herder(silent, runner, FakePlugins())
    assert refused(403, lambda: herder.topics("snk")) == "Topic tracking is disabled."
    assert refused(403, lambda: herder.reset_topics("snk")) == "Topic tracking is disabled."
    kept = WorkerSettings("localhost:8083", "4.3.1", allows_topics_reset=False)
    herder = standalone_herder(kept, runner, FakePlugins())
    assert refused(403, lambda: herder.reset_topics("snk")) == "Topic tracking reset is disabled."


def test_offsets_change_only_when_it_is_stopped(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", SINK)
    runner.stored = {TopicPartition("lines", 0): 3}
    assert herder.offsets("snk") == [({"kafka_partition": 0, "kafka_topic": "lines"}, {"kafka_offset": 3})]
    change = [({"kafka_topic": "lines", "kafka_partition": "0"}, {"kafka_offset": "2"})]
    expected = (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        "specified connector by issuing a 'PUT' request to the '/connectors/snk/stop' endpoint"
    )
    assert refused(400, lambda: herder.alter_offsets("snk", change)) == expected
    herder.set_target_state("snk", "PAUSED")
    assert refused(400, lambda: herder.reset_offsets("snk")) == expected
    herder.set_target_state("snk", "STOPPED")
    assert herder.alter_offsets("snk", change) == "altered"
    assert herder.alter_offsets("snk", [(change[0][0], None)]) == "altered"
    assert herder.reset_offsets("snk") == "reset"
    partition = TopicPartition("lines", 0)
    assert runner.altered == [("snk", {partition: 2}), ("snk", {partition: None}), ("snk", None)]
    empty = refused(400, lambda: herder.alter_offsets("snk", []))
    assert empty == "Partitions / offsets need to be provided for an alter offsets request"


def test_offsets_wait_until_the_connector_has_stopped(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", {**SINK, "slow.stop.s": "0.2"})
    await_state(herder, "snk", "RUNNING", ["RUNNING"] * 2)
    herder.set_target_state("snk", "STOPPED")
    assert runner.running == {"snk"}
    assert herder.reset_offsets("snk") == "reset"
    assert runner.running == set()


def test_offsets_of_a_source_are_its_own_and_its_tasks_are_fenced(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("src", {**SOURCE, "tasks.max": "2"})
    await_state(herder, "src", "RUNNING", ["RUNNING"] * 2)
    herder.set_target_state("src", "STOPPED")
    runner.fenced.clear()
    change = [({"filename": "a"}, {"position": 2})]
    assert herder.alter_offsets("src", change) == "altered"
    assert runner.altered == [("src", change)]
    assert runner.fenced == [("src", 2)]
    runner.stored = change
    assert herder.offsets("src") == change


def test_offsets_that_a_connector_refuses(herder: WorkerHerder) -> None:
    herder.create("src", {**SOURCE, "refuses.offsets": "yes"}, "STOPPED")
    assert refused(500, lambda: herder.reset_offsets("src")) == "these offsets make no sense"


class InTransit(SoleOwnership):
    """Of a worker that rebalances while another one owns everything."""

    is_rebalancing = True

    def owns(self, name: str, now: float) -> bool:
        return False


def test_a_connector_that_is_between_workers_cannot_be_restarted(runner: FakeRunner) -> None:
    herder = WorkerHerder(WORKER, MemoryTable(), MemoryTable(), InTransit(), runner, FakePlugins())
    herder.start()
    herder.create("snk", SINK, "STOPPED")
    expected = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    assert refused(409, lambda: herder.restart_task("snk", 0)) == expected
    restart = refused(409, lambda: herder.restart_connector("snk", include_tasks=True, only_failed=False))
    assert restart == expected
    assert refused(409, lambda: herder.reset_offsets("snk")) == expected
    herder.set_target_state("snk", "STARTED")
    herder.stop()
    assert runner.starts == []


def test_loggers(herder: WorkerHerder) -> None:
    logger = logging.getLogger("penstock.test_herder.loggers.child")
    try:
        assert herder.logger_level("penstock.test_herder.no.such") is None
        changed = herder.set_logger_level("penstock.test_herder.loggers", "DEBUG", in_cluster=False)
        assert changed == ["penstock.test_herder.loggers", "penstock.test_herder.loggers.child"]
        shown = herder.logger_level("penstock.test_herder.loggers.child")
        assert shown is not None
        assert shown["level"] == "DEBUG"
        assert shown["last_modified"] > 0
        assert herder.set_logger_level("penstock.test_herder.loggers", "error", in_cluster=True) == ()
        assert logger.level == logging.ERROR
        assert herder.logger_levels()["penstock.test_herder.loggers"]["level"] == "ERROR"
        assert herder.logger_levels()["root"]["last_modified"] is None
        call = lambda: herder.set_logger_level("penstock", "FOO", in_cluster=False)  # noqa: E731
        assert refused(404, call) == "invalid log level 'FOO'."
    finally:
        for name in ("penstock.test_herder.loggers", "penstock.test_herder.loggers.child"):
            logging.getLogger(name).setLevel(logging.NOTSET)


def test_what_a_connector_says_after_its_stop_is_not_heard(herder: WorkerHerder, runner: FakeRunner) -> None:
    herder.create("snk", SINK)
    await_state(herder, "snk", "RUNNING", ["RUNNING"] * 2)
    late = runner.executions["snk"]
    herder.set_target_state("snk", "PAUSED")
    await_state(herder, "snk", "PAUSED", ["PAUSED"] * 2)
    late.report(Report(State.RUNNING))
    late.topics_used(["other"])
    herder.create("another", SINK)
    await_state(herder, "another", "RUNNING", ["RUNNING"] * 2)  # statuses are written in their order
    assert herder.status("snk").state == "PAUSED"
    assert herder.topics("snk") == ["lines"]
