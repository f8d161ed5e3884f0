"""The marker of an error: in every traceback, and found again in whatever carries it."""

from __future__ import annotations

import pickle
import traceback

import pytest

from penstock.core.error_table import ERRORS
from penstock.core.errors import BrokerUnreachable, CarriedError, PenstockError, UnknownTopic, find_error, marker

AWKWARD = 'a "quoted" word, C:\\path, a {brace} and an é'


def traceback_of(error: BaseException) -> str:
    try:
        raise error
    except type(error):
        return traceback.format_exc()


@pytest.mark.parametrize("message", ["no broker answered", AWKWARD, "", "two\nlines"])
def test_a_traceback_carries_the_condition_and_the_message(message: str) -> None:
    found = find_error(traceback_of(BrokerUnreachable(message)))
    assert found is not None
    assert found.entry.condition == "PENSTOCK_BROKER_UNREACHABLE"
    assert str(found) == (" ".join(message.split()) or found.entry.meaning)


def test_py4j_escapes_what_a_callback_raises() -> None:
    carried = traceback_of(BrokerUnreachable(AWKWARD))
    for _ in range(2):
        carried = carried.replace("\\", "\\\\").replace("\n", "\\n")
        found = find_error(carried)
        assert found is not None
        assert str(found) == AWKWARD


def test_fields_travel_with_the_message() -> None:
    error = CarriedError("PENSTOCK_BAD_ROW", "the value is null", {"topic": "orders", "offset": 17})
    found = find_error(traceback_of(pickle.loads(pickle.dumps(error))))
    assert found is not None
    assert (found.fields, marker(found)) == ({"topic": "orders", "offset": 17}, marker(error))


def test_a_condition_of_a_newer_version_is_unexpected() -> None:
    found = find_error('[PENSTOCK_OF_TOMORROW] {"message": "new"}')
    assert found is not None
    assert (found.entry.condition, str(found)) == ("PENSTOCK_UNEXPECTED", "new")


def test_damaged_json_costs_the_message_only() -> None:
    found = find_error('[PENSTOCK_SINK_FENCED] {"message": "cut o')
    assert found is not None
    assert found.entry.condition == "PENSTOCK_SINK_FENCED"


def test_other_texts_hold_no_error() -> None:
    assert find_error("java.lang.OutOfMemoryError: Java heap space") is None
    assert find_error("[PENSTOCK_SINK_FENCED] without its JSON") is None


def test_notes_of_others_are_kept() -> None:
    error = UnknownTopic("gone")
    error.add_note("while reading")
    assert error.__notes__ == ["while reading", '[PENSTOCK_UNKNOWN_TOPIC] {"message": "gone"}']
    assert "while reading\n" in traceback_of(error)


def test_the_message_alone_is_for_people() -> None:
    assert str(PenstockError("something failed")) == "something failed"
    assert all(name == entry.condition for name, entry in ERRORS.items())
