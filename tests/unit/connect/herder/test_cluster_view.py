from __future__ import annotations

from penstock.connect.herder.cluster_view import ClusterView, ConnectorChanged
from penstock.connect.runtime.runner import State
from penstock.connect.storage.config_records import (
    ConnectorConfig,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetStateChange,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from penstock.connect.storage.status_records import Status, TopicUse

CONFIG = {"connector.class": "Sink"}


def test_a_connector_exists_from_its_config_to_its_tombstone() -> None:
    view = ClusterView()
    assert view.step(ConnectorConfig("a", CONFIG)) == (ConnectorChanged("a"),)
    assert view.names() == ["a"]
    assert view.config("a") == CONFIG
    assert view.target("a") == "STARTED"
    assert view.step(ConnectorConfig("a", None)) == (ConnectorChanged("a"),)
    assert view.step(ConnectorConfig("a", None)) == ()
    assert view.names() == []
    assert view.config("a") is None


def test_a_target_state_may_come_before_its_connector() -> None:
    view = ClusterView()
    assert view.step(TargetStateChange("a", "STOPPED")) == ()
    view.step(ConnectorConfig("a", CONFIG))
    assert view.target("a") == "STOPPED"
    assert view.step(TargetStateChange("a", "STARTED")) == (ConnectorChanged("a"),)


def test_a_connector_that_was_deleted_and_created_again_is_started() -> None:
    view = ClusterView()
    view.step(ConnectorConfig("a", CONFIG))
    view.step(TargetStateChange("a", "PAUSED"))
    view.step(ConnectorConfig("a", None))
    view.step(TargetStateChange("a", None))
    view.step(ConnectorConfig("a", CONFIG))
    assert view.target("a") == "STARTED"


def test_task_configs_take_effect_with_their_commit() -> None:
    view = ClusterView()
    view.step(ConnectorConfig("a", CONFIG))
    view.step(TaskConfig("a", 0, {"n": "0"}))
    view.step(TaskConfig("a", 1, {"n": "1"}))
    assert view.task_configs("a") == ()
    view.step(TasksCommit("a", 2))
    assert view.task_configs("a") == ({"n": "0"}, {"n": "1"})
    view.step(TaskConfig("a", 0, {"n": "new"}))
    assert view.task_configs("a")[0] == {"n": "0"}
    view.step(TasksCommit("a", 1))
    assert view.task_configs("a") == ({"n": "new"},)
    view.step(TasksCommit("a", 0))
    assert view.task_configs("a") == ()


def test_a_commit_without_all_of_its_task_configs_leaves_none() -> None:
    """Compaction removed the config of task 0, which a later reconfiguration did not finish."""
    view = ClusterView()
    view.step(ConnectorConfig("a", CONFIG))
    view.step(TaskConfig("a", 1, {"n": "1"}))
    view.step(TasksCommit("a", 2))
    view.step(TaskConfig("a", 0, {"n": "0"}))
    assert view.task_configs("a") == ()


def test_a_commit_may_follow_task_configs_that_it_does_not_count() -> None:
    """Compaction removed the commit of two tasks."""
    view = ClusterView()
    view.step(TaskConfig("a", 1, {"n": "1"}))
    view.step(TaskConfig("a", 0, {"n": "0"}))
    view.step(TasksCommit("a", 1))
    assert view.task_configs("a") == ({"n": "0"},)


def test_the_tasks_to_fence_outlive_their_connector() -> None:
    view = ClusterView()
    view.step(ConnectorConfig("a", CONFIG))
    view.step(TaskCount("a", 3))
    view.step(ConnectorConfig("a", None))
    view.step(ConnectorConfig("a", CONFIG))
    assert view.fenced_tasks("a") == 3


def test_a_restart_is_an_effect_only_for_a_connector_that_exists() -> None:
    view = ClusterView()
    request = RestartRequest("a", True, False)
    assert view.step(request) == ()
    view.step(ConnectorConfig("a", CONFIG))
    assert view.step(request) == (request,)
    assert view.step(LoggerLevel("penstock", "DEBUG")) == (LoggerLevel("penstock", "DEBUG"),)
    assert view.step(SessionKey("k", "HmacSHA256", 1)) == ()


def test_statuses_and_topics_last_until_their_tombstones() -> None:
    view = ClusterView()
    running, task = Status("a", None, State.RUNNING, "w"), Status("a", 0, State.RUNNING, "w")
    for status in (running, task):
        assert view.step(status) == ()
    view.step(TopicUse("a", "lines", 0, 5))
    assert view.statuses("a") == {None: running, 0: task}
    assert view.topics("a") == {"lines"}
    assert view.names_with_status() == ["a"]
    view.step(Status("a", 0, State.DESTROYED))
    view.step(Status("a", None, State.DESTROYED))
    view.step(TopicUse("a", "lines"))
    assert view.statuses("a") == {}
    assert view.names_with_status() == []
    assert view.topics("a") == frozenset()
