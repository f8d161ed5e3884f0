"""The matrix says what happened: it forgets no failure, and part of a run never passes for the whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.matrix import FAILED, HAS_NONE, NOT_RUN, OK, ClientMatrix
from tests.conftest import optional_part_missing, require_program


def test_failure_is_never_taken_back() -> None:
    matrix = ClientMatrix()
    matrix.expect("client", "feature")
    for outcome in (OK, FAILED, OK, NOT_RUN):
        matrix.report("client", "feature", outcome)
    assert matrix.cells["client", "feature"] == FAILED


def test_is_complete_when_every_cell_was_reported() -> None:
    matrix = ClientMatrix()
    assert not matrix.is_complete()
    matrix.expect("client", "first")
    matrix.expect("client", "second")
    matrix.report("client", "first", OK)
    assert not matrix.is_complete()
    matrix.report("client", "second", NOT_RUN)
    assert matrix.is_complete()


def test_is_written_in_the_order_of_collection(tmp_path: Path) -> None:
    matrix = ClientMatrix()
    matrix.expect("b client", "z feature")
    matrix.has_none("a client", "z feature", "it has no such call")
    matrix.expect("b client", "a feature")
    matrix.report("b client", "a feature", OK)
    matrix.report("b client", "z feature", FAILED)
    matrix.versions["b client"] = "1.2"
    matrix.write(tmp_path / "made" / "matrix.json", "penstock")
    written = json.loads((tmp_path / "made" / "matrix.json").read_text())
    assert written == {
        "broker": "penstock",
        "clients": {
            "b client": {"version": "1.2", "features": {"z feature": FAILED, "a feature": OK}, "notes": {}},
            "a client": {
                "version": None,
                "features": {"z feature": HAS_NONE},
                "notes": {"z feature": "it has no such call"},
            },
        },
    }
    assert list(written["clients"]["b client"]["features"]) == ["z feature", "a feature"]


class TestOptionalParts:
    def test_missing_program_skips_and_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PENSTOCK_REQUIRE_ALL", raising=False)
        with pytest.raises(pytest.skip.Exception, match="no-such-program is not installed: apt-get install it"):
            require_program("no-such-program", install="apt-get install it")

    def test_missing_part_fails_where_all_are_required(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PENSTOCK_REQUIRE_ALL", "1")
        with pytest.raises(pytest.fail.Exception, match="what to install"):
            optional_part_missing("what to install")

    def test_installed_program_is_found(self) -> None:
        assert require_program("sh", install="nothing").endswith("/sh")
