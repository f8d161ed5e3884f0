from __future__ import annotations

import dataclasses

from penstock.bench.catalogue import CATALOGUE, plan
from penstock.bench.main import arguments_parser
from penstock.bench.sizes import FULL, GB, QUICK

PLENTY = 1000 * GB


def test_the_command_line_knows_every_measurement() -> None:
    options = arguments_parser().parse_args(["--only", *CATALOGUE])
    assert options.only == list(CATALOGUE)


def test_with_room_everything_is_measured() -> None:
    planned = plan(CATALOGUE, FULL, PLENTY)
    assert [measurement.name for measurement in planned.measurements] == list(CATALOGUE)
    assert planned.notes == ()


def test_metric_keys_are_unique() -> None:
    keys = [metric.key for one in plan(CATALOGUE, FULL, PLENTY).measurements for metric in one.metrics]
    assert len(keys) == len(set(keys))


def test_only_what_was_asked_for() -> None:
    assert [one.name for one in plan(["start"], FULL, PLENTY).measurements] == ["start"]


def test_a_log_that_does_not_fit_is_left_out_and_named() -> None:
    planned = plan(["growth"], FULL, free_bytes=8 * GB)
    assert planned.sizes.log_bytes == (GB // 10, GB)
    assert planned.notes == ("growth: no room on the disk for a log of 10 GB",)
    keys = [metric.key for metric in planned.measurements[0].metrics]
    assert "growth.factor" in keys
    assert not any(str(10 * GB) in key for key in keys)


def test_a_single_log_has_nothing_to_grow_from() -> None:
    planned = plan(["growth"], dataclasses.replace(QUICK, log_bytes=(GB,)), PLENTY)
    assert "growth.factor" not in [metric.key for metric in planned.measurements[0].metrics]


def test_a_full_disk_leaves_only_notes() -> None:
    planned = plan(CATALOGUE, FULL, free_bytes=GB)
    assert planned.measurements == ()
    assert len(planned.notes) == len(CATALOGUE) - 1 + len(FULL.log_bytes)
