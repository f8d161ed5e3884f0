"""Unit tests of pipelines do not see a Spark session that other tests of the same process share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_spark_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.pipeline.spark.session._running", None)
