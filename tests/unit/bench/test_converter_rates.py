"""The rates of Connect's converters are measured on records that all can be converted, but for the damaged ones."""

from __future__ import annotations

import pytest

from penstock.bench.converter_rates import Case, cases, measure


@pytest.mark.parametrize("case", list(cases(40)), ids=lambda case: case.name)
def test_every_case_is_measured(case: Case) -> None:
    rate = measure(case, rounds=1)
    assert rate.groups == (2 if "two shapes" in case.name else 1)
    assert rate.to_connect_ns >= 0
