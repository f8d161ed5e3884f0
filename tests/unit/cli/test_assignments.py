"""`NAME=VALUE` words."""

from __future__ import annotations

import pytest

from penstock.cli.assignments import parse_assignments
from penstock.cli.command_error import CommandError
from penstock.core.exit_codes import ExitCode


def test_the_value_begins_at_the_first_equals_sign_and_may_be_empty() -> None:
    assert parse_assignments(["a=1", "b = x=y ", "c="], "-X") == {"a": "1", "b": "x=y", "c": ""}


def test_the_last_one_of_a_name_counts() -> None:
    assert parse_assignments(["a=1", "a=2"], "-X") == {"a": "2"}


@pytest.mark.parametrize("word", ["a", "=1", " =1", ""])
def test_a_word_without_a_name_or_an_equals_sign_is_wrong_usage_and_names_the_option(word: str) -> None:
    with pytest.raises(CommandError, match=r"--config .*expected NAME=VALUE") as raised:
        parse_assignments([word], "--config")
    assert raised.value.exit_code is ExitCode.USAGE
